import { strict as assert } from "node:assert";
import { scanImports, stripSource } from "./scan.ts";

const kinds = (source: string) => scanImports(source).map((i) => `${i.kind} ${i.specifier}`);

Deno.test("scanImports() finds every form of import with its kind", () => {
  const source = `
import "./bare.ts";
import a from "./default.ts";
import * as b from './star.ts';
import c, { d, type E } from "./mixed.ts";
import type { F } from "./type.ts";
import type G from "./type_default.ts";
import {
  long,
  list,
} from "./lines.ts";
export * from "./reexport.ts";
export { x } from "./reexport_names.ts";
export type { Y } from "./reexport_type.ts";
const lazy = (await import("./dynamic.ts")).Name;
function f(a: import("./type_of.ts").Name) {}
new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
import.meta.resolve("./resolved.ts");
import text from "./x.txt" with { type: "text" };
`;
  assert.deepEqual(kinds(source), [
    "value ./bare.ts",
    "value ./default.ts",
    "value ./star.ts",
    "value ./mixed.ts",
    "type ./type.ts",
    "type ./type_default.ts",
    "value ./lines.ts",
    "value ./reexport.ts",
    "value ./reexport_names.ts",
    "type ./reexport_type.ts",
    "value ./dynamic.ts",
    "type ./type_of.ts",
    "url ./worker.ts",
    "url ./resolved.ts",
    "value ./x.txt",
  ]);
});

Deno.test("scanImports() takes a default import named type for a value", () => {
  assert.deepEqual(kinds(`import type from "./a.ts";`), ["value ./a.ts"]);
});

Deno.test("scanImports() tells the line", () => {
  assert.equal(scanImports(`\n/* a\n b */\nimport "./a.ts";`)[0]?.line, 4);
});

Deno.test("scanImports() reads nothing in comments, strings and templates", () => {
  assert.deepEqual(kinds(`// import "./a.ts";\n/* import "./b.ts" */\n`), []);
  assert.deepEqual(kinds(`const s = 'import "./a.ts"';`), []);
  assert.deepEqual(kinds('const t = `\nimport "./c.ts";\n`;'), []);
  assert.deepEqual(kinds('const t = `${`import "./d.ts"`} { }`; import "./e.ts";'), [
    "value ./e.ts",
  ]);
});

Deno.test("scanImports() reads code inside a template's substitution", () => {
  assert.deepEqual(kinds('`${await import("./a.ts")} import "./b.ts"`'), ["value ./a.ts"]);
  assert.deepEqual(kinds('`${{ a: { b: 1 } }} import "./b.ts"`; import "./c.ts"'), [
    "value ./c.ts",
  ]);
});

Deno.test("scanImports() is not led astray by quotes in regular expressions and divisions", () => {
  assert.deepEqual(kinds('const r = /["`]/; import "./a.ts";'), ["value ./a.ts"]);
  assert.deepEqual(kinds('const r = x.replace(/[/`]/g, ""); import "./a.ts";'), ["value ./a.ts"]);
  assert.deepEqual(kinds('const q = a / b; const s = "`"; import "./a.ts"; c / d'), [
    "value ./a.ts",
  ]);
});

Deno.test("scanImports() leaves an export of a declaration alone", () => {
  assert.deepEqual(kinds(`export type A = "./a.ts";\nexport const b = "./b.ts";`), []);
});

Deno.test("stripSource() keeps the length and the lines", () => {
  const source = 'a(); // "x"\nconst t = `b ${c /* d */} e`;\n/* f\n */ "g"';
  for (const mode of ["keep", "blank"] as const) {
    const out = stripSource(source, mode);
    assert.equal(out.length, source.length);
    assert.equal(out.split("\n").length, source.split("\n").length);
  }
  assert.ok(stripSource(source, "keep").includes("`b ${c"));
  assert.ok(!stripSource(source, "blank").includes("`b"));
});
