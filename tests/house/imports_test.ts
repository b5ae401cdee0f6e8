import { strict as assert } from "node:assert";
import { checkImports, forbidden, layerOf, resolveImport } from "../../tools/lint/imports.ts";
import { exists, importMap, readTree } from "../../tools/root.ts";

/** The rules that a small tree of sources breaks, as `file:line rule`. */
function broken(tree: Record<string, string>, aliases: Record<string, string> = {}): string[] {
  const problems = checkImports(new Map(Object.entries(tree)), aliases);
  return problems.map(({ file, line, rule }) => `${file}:${line} ${rule}`);
}

Deno.test("the repository's imports point down, without circles, shaders in runtime/ only", () => {
  const files = readTree("", [".ts", ".tsx"]);
  const problems = checkImports(files, importMap(), exists);
  assert.ok(files.has("tests/house/imports_test.ts"), "the walk finds this file");
  const text = problems.map(({ file, line, message }) => `${file}:${line} ${message}`).join("\n");
  assert.equal(text, "");
});

Deno.test("checkImports() accepts the spine and its leaves", () => {
  const tree = {
    "cli.ts": `import "./commands/serve.ts"; import "./server/app.ts";`,
    "commands/serve.ts": `import "../mod.ts";`,
    "mod.ts": `export * from "./engine/engine.ts";`,
    "server/app.ts": `import "../engine/engine.ts"; import "../media/png.ts";`,
    "engine/engine.ts": `import "../models/a.ts"; import "../hub/find.ts";`,
    "models/a.ts": `import "../runtime/ops.ts"; import "./b.ts";`,
    "models/b.ts": ``,
    "runtime/ops.ts": `const shader = "@compute";`,
    "media/png.ts": `import "./zlib.ts"; import "hono";`,
    "media/zlib.ts": ``,
    "hub/find.ts": ``,
    "models/a_test.ts": `import "../server/app.ts"; import "../tests/close.ts";`,
    "tests/close.ts": ``,
    "tools/gate.ts": `import "../tests/close.ts"; import "../cli.ts";`,
  };
  assert.deepEqual(broken(tree), []);
});

Deno.test("checkImports() refuses every arrow that runs up the spine", () => {
  const folders = ["runtime/", "models/", "engine/", "generation/", "library/"].map((folder) =>
    `${folder}a.ts`
  );
  const spine = [...folders, "mod.ts", "commands/a.ts", "cli.ts"];
  for (const [low, from] of spine.entries()) {
    for (const to of spine.slice(low + 1)) {
      const up = from.includes("/") ? `../${to}` : `./${to}`;
      for (const line of [`import "${up}";`, `import type { A } from "${up}";`]) {
        assert.deepEqual(broken({ [from]: line, [to]: "" }), [`${from}:1 direction`]);
      }
    }
  }
});

Deno.test("checkImports() refuses folders of a room that import each other, even by types", () => {
  const tree = {
    "server/jobs/a.ts": `import "../http/a.ts";`,
    "server/http/a.ts": "",
    "server/http/b.ts": `import type { A } from "../jobs/b.ts";`,
    "server/jobs/b.ts": `import "../app.ts";`,
    "server/app.ts": `import "./http/a.ts";`,
  };
  assert.deepEqual(broken(tree), ["server/http/b.ts:1 pair"]);
});

Deno.test("checkImports() keeps the library and the server apart", () => {
  const server = { "server/a.ts": `import "../mod.ts";`, "mod.ts": "" };
  assert.deepEqual(broken(server), ["server/a.ts:1 direction"]);
  const library = { "mod.ts": `import "./server/a.ts";`, "server/a.ts": "" };
  assert.deepEqual(broken(library), ["mod.ts:1 direction"]);
  const above = { "commands/a.ts": `import "../mod.ts"; import "../server/a.ts";` };
  assert.deepEqual(broken({ ...above, "mod.ts": "", "server/a.ts": "" }), []);
});

Deno.test("checkImports() refuses an arrow up that a worker's URL makes", () => {
  const tree = {
    "models/a.ts": `new Worker(new URL("../engine/worker.ts", import.meta.url));`,
    "engine/worker.ts": "",
  };
  assert.deepEqual(broken(tree), ["models/a.ts:1 direction"]);
});

Deno.test("checkImports() refuses a leaf that imports anything of ours", () => {
  for (const to of ["hub/b.ts", "runtime/b.ts", "mod.ts"]) {
    assert.deepEqual(broken({ "media/a.ts": `\nimport "../${to}";`, [to]: "" }), [
      "media/a.ts:2 direction",
    ]);
  }
});

Deno.test("checkImports() refuses tests and tools in the program", () => {
  for (const to of ["tests/a.ts", "tools/a.ts", "engine/a_test.ts", "engine/a_bench.ts"]) {
    assert.deepEqual(broken({ "engine/b.ts": `import "../${to}";`, [to]: "" }), [
      "engine/b.ts:1 direction",
    ]);
  }
});

Deno.test("checkImports() finds a circle within a folder, through any number of files", () => {
  const tree = {
    "models/a.ts": `import "./b.ts";`,
    "models/b.ts": `\nimport { c } from "./c.ts";`,
    "models/c.ts": `export * from "./a.ts";`,
  };
  assert.deepEqual(broken(tree), ["models/a.ts:1 circle"]);
  assert.deepEqual(broken({ "models/a.ts": `import "./a.ts";` }), ["models/a.ts:1 circle"]);
});

Deno.test("checkImports() exempts import type from circles, and nothing else", () => {
  const circle = (line: string) =>
    broken({ "models/a.ts": `import "./b.ts";`, "models/b.ts": line });
  assert.deepEqual(circle(`import type { A } from "./a.ts";`), []);
  assert.deepEqual(circle(`export type { A } from "./a.ts";`), []);
  assert.deepEqual(circle(`import { type A } from "./a.ts";`), ["models/a.ts:1 circle"]);
  assert.deepEqual(circle(`await import("./a.ts");`), ["models/a.ts:1 circle"]);
});

Deno.test("checkImports() refuses shaders outside runtime/, in strings, templates and imports", () => {
  const shader = (text: string) => broken({ "models/a.ts": text });
  assert.deepEqual(shader("const a = `\n@compute @workgroup_size(64)`;"), ["models/a.ts:2 shader"]);
  assert.deepEqual(shader(`const a = "var<storage, read> x: f32;";`), ["models/a.ts:1 shader"]);
  assert.deepEqual(shader(`import a from "../runtime/shaders/a.wgsl";`), ["models/a.ts:1 shader"]);
  assert.deepEqual(shader("// @compute in a comment\n/* var<storage> */"), []);
});

Deno.test("checkImports() refuses a file outside the house and an import that leads nowhere", () => {
  assert.deepEqual(broken({ "helpers/a.ts": "" }), ["helpers/a.ts:1 place"]);
  const files = new Map([["models/a.ts", `import "./gone.ts";`]]);
  assert.deepEqual(checkImports(files, {}, () => false).map(({ rule }) => rule), ["missing"]);
});

Deno.test("checkImports() follows aliases of the import map", () => {
  const tree = { "models/a.ts": `import "@engine/b.ts";`, "engine/b.ts": "" };
  assert.deepEqual(broken(tree, { "@engine/": "./engine/" }), ["models/a.ts:1 direction"]);
  assert.deepEqual(
    broken({ "models/a.ts": `import "self";`, "mod.ts": "" }, { self: "./mod.ts" }),
    [
      "models/a.ts:1 direction",
    ],
  );
});

Deno.test("resolveImport() leads to paths of ours and to undefined for packages", () => {
  assert.equal(resolveImport("models/families/a.ts", "../../runtime/ops.ts"), "runtime/ops.ts");
  assert.equal(resolveImport("cli.ts", "./mod.ts"), "mod.ts");
  assert.equal(resolveImport("cli.ts", "hono", { hono: "npm:hono@4.13.19" }), undefined);
  assert.equal(resolveImport("cli.ts", "node:path"), undefined);
});

Deno.test("forbidden() lets the page without a server alone use the server and the library", () => {
  const page = layerOf("browser/playground/service.ts")!;
  for (const to of ["server/", "browser/", "playground/"]) {
    assert.equal(forbidden(page, to), undefined);
  }
  assert.ok(forbidden("browser/", page));
  assert.ok(forbidden(layerOf("browser/mod.ts")!, "server/"));
});

Deno.test("layerOf() puts tests and benches with tests/, wherever they lie", () => {
  assert.equal(layerOf("runtime/ops/matmul_test.ts"), "tests/");
  assert.equal(layerOf("runtime/ops/matmul_bench.ts"), "tests/");
  assert.equal(layerOf("runtime/ops/matmul.ts"), "runtime/");
  assert.equal(layerOf("mod.ts"), "mod.ts");
  assert.equal(layerOf("server/mod.ts"), "server/");
  assert.equal(layerOf("README.md"), undefined);
});

Deno.test("forbidden() lets everybody of the spine use the leaves", () => {
  for (const from of ["runtime/", "models/", "engine/", "server/", "mod.ts", "cli.ts"]) {
    assert.equal(forbidden(from, "media/"), undefined);
    assert.equal(forbidden(from, "hub/"), undefined);
  }
});
