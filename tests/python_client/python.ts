/** The Python that the tests of other people's packages run in: `PYTHON` names it, `python3` when unset. */

/** The program. */
export const PYTHON = Deno.env.get("PYTHON") ?? "python3";

/**
 * Why a test cannot run here.
 *
 * @param name of the package
 * @param version that the test was written for
 * @returns nothing where it can run
 */
export async function missing(name: string, version: string): Promise<string | undefined> {
  try {
    const { success, stdout } = await new Deno.Command(PYTHON, {
      args: ["-c", `import ${name}; print(${name}.__version__)`],
    }).output();
    const found = new TextDecoder().decode(stdout).trim();
    if (!success) return `${PYTHON} has no package ${name}; pip install ${name}==${version}`;
    return found === version ? undefined : `${name} is ${found}; pip install ${name}==${version}`;
  } catch {
    return `there is no ${PYTHON}; name one in PYTHON`;
  }
}
