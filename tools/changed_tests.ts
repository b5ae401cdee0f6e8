/** Which tests a change can reach: those whose imports lead to a file that differs. */
import { importMap, readTree, ROOT } from "./root.ts";
import { resolveImport } from "./lint/imports.ts";
import { scanImports, stripSource } from "./lint/scan.ts";

/** Files that no import names, and that change what every test does. */
const EVERYWHERE = /^(?:deno\.(?:json|lock)|denoise|tools\/gate\.ts)$|^tests\/goldens\//;

/** A program that tests and tools start, named from the root of the repository. */
const PROGRAM = /"([\w/]+\.tsx?)"/g;

export function testsReached(
  sources: ReadonlyMap<string, string>,
  changed: readonly string[],
  aliases: Record<string, string> = {},
): string[] | undefined {
  if (changed.some((path) => EVERYWHERE.test(path))) return undefined;
  const importers = new Map<string, Set<string>>();
  const connect = (from: string, to: string | undefined) => {
    if (to !== undefined) importers.set(to, (importers.get(to) ?? new Set()).add(from));
  };
  for (const [path, source] of sources) {
    for (const { specifier, kind } of scanImports(source)) {
      if (kind !== "type") connect(path, resolveImport(path, specifier, aliases));
    }
    if (!/^(?:tests|tools)\/|_test\./.test(path)) continue;
    for (const [, program] of stripSource(source, "keep").matchAll(PROGRAM)) {
      if (sources.has(program!)) connect(path, program!);
    }
  }
  const reached = new Set(changed);
  // A set's loop also meets what is added to it on the way.
  for (const path of reached) {
    importers.get(path)?.forEach((importer) => reached.add(importer));
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      importers.get(path.slice(0, end + 1))?.forEach((importer) => reached.add(importer));
    }
  }
  const isHouse = (path: string) => path.startsWith("tests/house/");
  return [...sources.keys()].filter((path) =>
    /_test\.tsx?$/.test(path) && (reached.has(path) || isHouse(path))
  );
}

async function git(...args: string[]): Promise<string[]> {
  const { success, stdout, stderr } = await new Deno.Command("git", {
    args,
    cwd: ROOT,
  }).output();
  const text = new TextDecoder().decode(success ? stdout : stderr).trim();
  if (!success) throw new Error(`Cannot tell what changed: git ${args.join(" ")}: ${text}`);
  return text === "" ? [] : text.split("\n");
}

/** The tests that can see what differs from where this branch left another, uncommitted and new files included. */
export async function testsOfChange(ref = "main"): Promise<string[] | undefined> {
  const [base] = await git("merge-base", ref, "HEAD");
  const changed = [
    ...await git("diff", "--name-only", base!),
    ...await git("ls-files", "--others", "--exclude-standard"),
  ];
  return testsReached(readTree("", [".ts", ".tsx"]), changed, importMap());
}
