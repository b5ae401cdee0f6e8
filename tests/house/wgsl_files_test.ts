/** Every kernel file has its place: it is imported once, by its name, and says at its head what it is. */
import assert from "node:assert/strict";
import { INCLUDES } from "../../runtime/shaders/includes.ts";
import { readTree } from "../../tools/root.ts";

const ROOT = "runtime/shaders/";

const files = readTree(ROOT, [".wgsl"]);
const modules = readTree("runtime", [".ts"]);

/** Files that a module makes kernels of, by path below the folder, with the name that it gives them. */
function kernelFiles(): Map<string, string> {
  const found = new Map<string, string>();
  for (const source of modules.values()) {
    const imports = source.matchAll(/^import (\w+) from "[./]*(?:shaders\/)?([\w/]+\.wgsl)"/gm);
    for (const [, variable, path] of imports) {
      const use = new RegExp(`new KernelFile\\(\\s*"([\\w/]+)",\\s*${variable}\\b`).exec(source);
      if (use) found.set(path!, use[1]!);
    }
  }
  return found;
}

Deno.test("every kernel file is a kernel under its own name, or included by another", () => {
  const kernels = kernelFiles();
  const included = [...files.values()].flatMap((source) =>
    [...source.matchAll(/^\s*\/\/#include "([\w/]+\.wgsl)"/gm)].map(([, path]) => path!)
  );
  // Decoders of formats are included by the accessors.
  const formats = [...files.keys()].filter((path) => path.startsWith(`${ROOT}formats/`));
  const known = new Set([...included, ...formats.map((path) => path.slice(ROOT.length))]);
  for (const file of files.keys()) {
    const path = file.slice(ROOT.length);
    if (kernels.has(path)) assert.equal(`${kernels.get(path)}.wgsl`, path);
    else {
      assert.ok(INCLUDES[path] !== undefined, `${path} is neither imported nor in includes.ts`);
      assert.ok(known.has(path), `${path} is in includes.ts, but nothing includes it`);
    }
  }
});

Deno.test("INCLUDES has each shared file under its own path", () => {
  for (const [path, source] of Object.entries(INCLUDES)) {
    assert.equal(source, files.get(ROOT + path), path);
  }
});

Deno.test("every kernel file begins with a comment that says what it computes", () => {
  for (const [path, source] of files) {
    assert.match(source, /^\/\/ [^\n]{20,}\n/, path);
    const tooLong = source.split("\n").findIndex((line) => line.length > 120);
    assert.equal(tooLong, -1, `${path}:${tooLong + 1} is longer than 120 characters`);
  }
});

Deno.test("every kernel's header names its grid", () => {
  for (const path of kernelFiles().keys()) {
    const head = files.get(ROOT + path)!.split("\n\n")[0]!;
    assert.match(head, /\bgrid:\s/i, path);
  }
});
