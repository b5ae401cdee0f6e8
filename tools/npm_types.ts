/** Declarations of the npm package, one file for each entry. */
import { rollup } from "rollup";
import dts from "rollup-plugin-dts";
import ts from "typescript";
import { fileURLToPath } from "node:url";
import { ROOT } from "./root.ts";

const LIBRARY = "denoise.d.ts";

/** Types are not checked here; `deno check` does that. */
const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.Preserve,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  lib: ["lib.dom.d.ts", "lib.dom.iterable.d.ts", "lib.dom.asynciterable.d.ts", "lib.esnext.d.ts"],
  types: [],
  strict: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
  declaration: true,
  emitDeclarationOnly: true,
  noCheck: true,
  rootDir: fileURLToPath(ROOT),
};

/** The library's, the tab's and the client's. */
const ENTRIES = ["mod.ts", "browser/mod.ts", "client/mod.ts"] as const;

/** Writes `denoise.d.ts`, `browser.d.ts` and `client.d.ts` into a folder. */
export async function makeTypes(folder: string): Promise<void> {
  const outDir = await Deno.makeTempDir();
  try {
    const paths = ENTRIES.map((entry) => fileURLToPath(new URL(entry, ROOT)));
    ts.createProgram(paths, { ...OPTIONS, outDir }).emit();
    const [library, browser, client] = ENTRIES.map((entry) =>
      `${outDir}/${entry.replace(/ts$/, "d.ts")}`
    );
    await rollTypes({ denoise: library!, client: client! }, folder);
    // A tab has the library's types, but not all of its values.
    await rollTypes({ browser: browser! }, folder, `${outDir}/browser/`);
    const path = `${folder}/browser.d.ts`;
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, text.replace("export * from", "export type * from"));
  } finally {
    await Deno.remove(outDir, { recursive: true });
  }
}

/** Puts declarations into one file for each entry; what lies outside the `own` folder is the library's. */
async function rollTypes(input: Record<string, string>, dir: string, own?: string) {
  const rolled = await rollup({
    input,
    plugins: [dts()],
    external: (id) => own === undefined ? !/^[./]/.test(id) : id.startsWith("../"),
  });
  await rolled.write({ dir, ...(own !== undefined && { paths: () => `./${LIBRARY}` }) });
  await rolled.close();
}
