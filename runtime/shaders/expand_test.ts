import assert from "node:assert/strict";
import { parseShader } from "./directives.ts";
import { expand, type Expansion, type ParamValues } from "./expand.ts";

/** Expands `main.wgsl`, of the lines given; `files` may be included. */
function run(
  lines: string,
  values: ParamValues = {},
  files: Record<string, string> = {},
): Expansion {
  const read = (path: string, source: string) => ({ path, nodes: parseShader(path, source) });
  return expand(
    read("main.wgsl", lines),
    values,
    (path) => files[path] === undefined ? undefined : read(path, files[path]),
  );
}

const body = (...args: Parameters<typeof run>) => run(...args).body;

function refuses(message: RegExp, ...args: Parameters<typeof run>): void {
  assert.throws(() => run(...args), { name: "ShaderError", message });
}

Deno.test("expand() drops comments and empty lines, and leaves other WGSL as it is", () => {
  const wgsl = "// A kernel.\n\nfn f() -> u32 { // why\n  return 0xFu + LOG2_E;\n}\n";
  assert.equal(body(wgsl), "fn f() -> u32 {\n  return 0xFu + LOG2_E;\n}");
});

Deno.test("expand() writes parameters as literals, and pastes them into identifiers", () => {
  const wgsl = `//#param ROWS: u32 // how many
//#param FLAG: bool
//#param NAME: word
//#param TYPE: wgsl
let sum_ROWS = vec4<TYPE>(NAME_at(ROWS), x.NAME, FLAG, MY_ROWS);`;
  assert.equal(
    body(wgsl, { ROWS: 3, FLAG: false, NAME: "a", TYPE: "f32" }),
    "let sum_3 = vec4<f32>(a_at(3u), x.a, false, MY_ROWS);",
  );
});

Deno.test("expand() takes the first branch that holds", () => {
  const wgsl = `//#param KIND: one | two | three
//#if KIND == one
1
//#elif KIND == two
2
//#else
3
//#endif`;
  assert.deepEqual(["one", "two", "three"].map((KIND) => body(wgsl, { KIND })), ["1", "2", "3"]);
});

Deno.test("expand() unrolls ranges and lists, the last variable fastest", () => {
  const wgsl = `//#param N: u32
//#for R in 0..N, P in x y
s_R = v.P;
//#endfor
//#for R in N..N
never
//#endfor`;
  assert.equal(body(wgsl, { N: 2 }), "s_0 = v.x;\ns_0 = v.y;\ns_1 = v.x;\ns_1 = v.y;");
  const names = "//#param NAMES: words\n//#for X in NAMES\nX\n//#endfor";
  assert.equal(body(names, { NAMES: ["a", "b"] }), "a\nb");
  assert.equal(body(names, { NAMES: [] }), "");
});

Deno.test("expand() keeps what //#let binds inside the loop that it stands in", () => {
  const wgsl = `//#let A = 2
//#for R in 0..2
//#let A = R * 8
A
//#endfor
A`;
  assert.equal(body(wgsl), "0u\n8u\n2u");
});

Deno.test("expand() gives an included file its values, and the names of the including one", () => {
  const files = {
    "a/row.wgsl": "//#param NAME: word\n//#param WIDTH: u32\n//#let TWICE = 2 * WIDTH\nNAME_WIDTH",
  };
  const wgsl = `//#let WIDTH = 4
//#include "a/row.wgsl" NAME=x
//#include "a/row.wgsl" NAME=y, WIDTH=WIDTH / 4
TWICE WIDTH NAME`;
  assert.equal(body(wgsl, {}, files), "x_4\ny_1\n2u 4u NAME");
});

Deno.test("expand() asks the kernel for a parameter that no including file has", () => {
  const files = { "a.wgsl": "//#param GATE: bool = false\n//#if GATE\ngate\n//#endif" };
  const wgsl = '//#include "a.wgsl"';
  assert.equal(body(wgsl, {}, files), "");
  const { body: gated, specialisation } = run(wgsl, { GATE: true }, files);
  assert.equal(gated, "gate");
  assert.deepEqual([...specialisation], [["GATE", true]]);
});

Deno.test("expand() collects buffers, uniforms, the workgroup and what the kernel needs", () => {
  const wgsl = `enable f16;
//#param WIDTH: u32
//#buffer read x WIDTH // [n]
//#for I in 0..2
//#buffer read_write y_I 1
//#uniform size_I: i32
//#endfor
//#buffer read_write z 4 exact // rounds
//#workgroup 8 * WIDTH, 1, 1
//#subgroup_size 8 * WIDTH
fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {}`;
  const { body: _, specialisation, ...parts } = run(wgsl, { WIDTH: 4 });
  assert.deepEqual(parts, {
    buffers: [
      { name: "x", access: "read", width: 4 },
      { name: "y_0", access: "read_write", width: 1 },
      { name: "y_1", access: "read_write", width: 1 },
      { name: "z", access: "read_write", width: 4, isExact: true },
    ],
    params: { size_0: "i32", size_1: "i32" },
    workgroupSize: [32, 1, 1],
    subgroupSize: 32,
    usesF16: true,
    usesSubgroupId: true,
  });
  assert.deepEqual([...specialisation], [["WIDTH", 4]]);
});

Deno.test("expand() refuses missing, unknown and wrong parameters, with file and line", () => {
  const wgsl = "// Head.\n//#param ROWS: u32\n//#param KIND: a | b = a";
  refuses(/^Cannot expand main.wgsl:2: parameter ROWS is not given$/, wgsl);
  refuses(/main.wgsl:1: it has no parameter ROW; it has ROWS, KIND$/, wgsl, { ROWS: 1, ROW: 2 });
  refuses(/main.wgsl:2: parameter ROWS is -1, it must be u32$/, wgsl, { ROWS: -1 });
  refuses(/main.wgsl:3: parameter KIND is c, it must be one of a, b$/, wgsl, {
    ROWS: 1,
    KIND: "c",
  });
});

Deno.test("expand() names the included file where something in it is wrong", () => {
  const files = { "a.wgsl": "\n//#param N: u32\n//#if N\n//#endif" };
  refuses(/^Cannot expand a.wgsl:2: parameter N is not given$/, '//#include "a.wgsl"', {}, files);
  refuses(/a.wgsl:3: "N" is 1, true or false is needed$/, '//#include "a.wgsl" N=1', {}, files);
  refuses(/main.wgsl:1: a.wgsl has no parameter M$/, '//#include "a.wgsl" M=1', {}, files);
  refuses(/main.wgsl:1: there is no b.wgsl/, '//#include "b.wgsl"');
});

Deno.test("parseShader() refuses directives that are not as they should be, with the line", () => {
  const cases: [string, RegExp][] = [
    ["\n//#iff x", /main.wgsl:2: \/\/#iff is no directive/],
    ["//#endif", /main.wgsl:1: \/\/#endif is no directive, or stands alone/],
    ["//#if true\nx", /main.wgsl:1: it is not closed by \/\/#endif/],
    ["//#for R in 0..2", /main.wgsl:1: it is not closed by \/\/#endfor/],
    ["//#if true\n//#else\n//#elif false\n//#endif", /main.wgsl:3: \/\/#elif is no directive/],
    ["//#for r in 0..2\n//#endfor", /main.wgsl:1: \/\/#for must be written/],
    ["//#param rows: u32", /main.wgsl:1: \/\/#param must be written/],
    ["//#param ROWS: float", /main.wgsl:1: "float" is no type/],
    ["//#buffer write x 4", /main.wgsl:1: \/\/#buffer must be written/],
    ["//#let A", /main.wgsl:1: \/\/#let must be written/],
    ['//#include "a.wgsl" N', /main.wgsl:1: "N" must be written NAME=value/],
  ];
  for (const [wgsl, message] of cases) refuses(message, wgsl);
});
