/** The Python that other people's packages run in: `PYTHON` names it, `python3` when unset. */

/** The program. */
export const PYTHON = Deno.env.get("PYTHON") ?? "python3";

/** What `pip` is told to install, by distribution. */
const REQUIREMENTS = Deno.readTextFileSync(new URL("python/requirements.txt", import.meta.url));

/**
 * Why a test cannot run here.
 *
 * @param name of a distribution of `python/requirements.txt`, where its version is
 */
export async function missing(name: string): Promise<string | undefined> {
  const [, version] = new RegExp(`^${name}(?:\\[.*\\])?==(.*)$`, "m").exec(REQUIREMENTS)!;
  const code = `from importlib.metadata import version; print(version("${name}"))`;
  try {
    const { success, stdout } = await new Deno.Command(PYTHON, { args: ["-c", code] }).output();
    const found = success ? new TextDecoder().decode(stdout).trim() : "nothing";
    if (found === version) return undefined;
    return `${PYTHON} has ${found} of ${name}; pip install '${name}==${version}'`;
  } catch {
    return `there is no ${PYTHON}; name one in PYTHON`;
  }
}
