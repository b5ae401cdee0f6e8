/** Every kernel file against the list of traps, and the list against known cases. Expanded ones: `wgsl_expanded_test.ts`. */

import { strict as assert } from "node:assert";
import { readTree } from "../../tools/root.ts";
import { lintWgsl, type WgslRule } from "../../tools/lint/wgsl.ts";

Deno.test("every kernel file of the runtime is free of known traps", () => {
  const found = [...readTree("runtime/shaders", [".wgsl"])].flatMap(([path, source]) =>
    lintWgsl(source).map(({ line, rule, message }) => `${path}:${line} ${rule}: ${message}`)
  );
  assert.equal(found.join("\n"), "");
});

/** What the cases below may use. */
const PRELUDE = `
struct Params { count: u32, shift: i32, scale: f32, half: f16, xy: vec2<f32> }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
var<workgroup> tile: array<f32, 64>;
var<workgroup> counts: array<atomic<u32>, 4>;
var<workgroup> flag: u32;
override WIDTH: u32 = 8u;
const TABLE = array<f32, 4>(1.0, 2.0, 3.0, 4.0);
fn twice(x: f32) -> f32 { return 2.0 * x; }
fn signed() -> i32 { return -3i; }
`;

/** The rules that a kernel with this body breaks. */
function rules(body: string, globals = ""): WgslRule[] {
  const source = `${PRELUDE}${globals}
@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) wid: vec3<u32>,
  @builtin(local_invocation_id) lid: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
${body}
}`;
  return lintWgsl(source).map(({ rule }) => rule);
}

/** A test of one rule: bodies that break it, once each, and bodies that break nothing. */
function ruleTest(rule: WgslRule, name: string, bad: string[], good: string[]): void {
  Deno.test(`lintWgsl() ${rule} finds ${name}`, () => {
    for (const body of bad) assert.deepEqual(rules(body), [rule], body);
  });
  Deno.test(`lintWgsl() ${rule} leaves the rest alone`, () => {
    for (const body of good) assert.deepEqual(rules(body), [], body);
  });
}

ruleTest("var-init", "a variable of a function without an initializer", [
  "var x: f32;",
  "for (var i = 0u; i < 4u; i++) { var x: vec4<f32>; x += vec4<f32>(1.0); }",
  "loop { if wid.x > 3u { var s: vec2<f32>; } break; }",
  "switch wid.x { case 0u, 1u: { var x: u32; } default { } }",
], [
  "var x: f32 = 0.0; var y = vec4<f32>(); let z = x; const w = 1;",
  "for (var i: u32 = 0u; i < 4u; i += 1u) { var x = input[i]; output[i] = x; }",
]);

ruleTest("pointer-argument", "pointers to elements in calls", [
  "let x = twice(&stack[2]);",
  "let x = twice(1.0 + twice(&params.scale));",
  "let x = twice(&(stack[2]));",
], [
  "atomicAdd(&counts[index], 1u); let n = arrayLength(&input);",
  "let n = atomicLoad(&counts[1 + (2 & 1)]);",
  "let a = params.count & wid.x; let b = (wid.x) & params.count;",
  "let a = max(wid.x, params.count & wid.x);",
]);

Deno.test("lintWgsl() pointer-argument finds parameters that are pointers", () => {
  const found = rules("", "fn add(x: ptr<function, f32>, y: f32) { *x += y; }");
  assert.deepEqual(found, ["pointer-argument"]);
  assert.deepEqual(rules("", "fn add(x: array<vec4<f32>, 2>, y: f32) -> f32 { return y; }"), []);
});

ruleTest("f16-bitcast", "bitcasts to and from f16", [
  "let x = bitcast<vec2<f16>>(params.count);",
  "let x = bitcast<f16>(params.count);",
  "let x = bitcast<vec4h>(vec2<u32>());",
  "let x = bitcast<u32>(vec2<f16>(unpack2x16float(params.count)));",
  "let h = params.half; let x = bitcast<u32>(vec2(h, h));",
], [
  "let x = bitcast<f32>(params.count << 16u);",
  "let x = bitcast<vec4<u32>>(vec4<f32>(1.0));",
  "let x = pack2x16float(vec2<f32>(f32(params.half), 0.0));",
  "let x = bitcast<f32>(pack2x16float(vec2<f32>(f32(params.half))));",
]);

ruleTest("signed-remainder", "remainders of signed numbers", [
  "let x = params.shift % 768;",
  "let x = 7 + i32(wid.x) % 5;",
  "var i = 0; i %= 3;",
  "for (var i = 0; i < 4; i++) { output[0] = f32(i % 2); }",
  "let a = i32(wid.x); let b = (a - 4) % 16;",
  "let x = signed() % 2;",
  "let x = vec2<i32>(lid.xy) % vec2(2);",
  "let x = vec2i(lid.xy).x % 2;",
  "let x = 5 % -params.shift;",
  "let x = wid.x + u32(-1 % 768);",
  "let x = max(params.shift, 3) % 4;",
], [
  "let x = wid.x % 768u;",
  "let x = wid.x % 768;",
  "let x = u32(params.shift) % 4u;",
  "var i = 0u; i %= params.count;",
  "let x = params.scale % 2.0;",
  "let x = (index + params.count) % WIDTH;",
  "let a = i32(wid.x % 4u);",
  "let a = params.shift - 4 * (params.shift / 4); let b = wid.x - 1 % 2;",
  "let x = max(0, wid.x); let y = x % 4; let z = select(0u, 1u, params.shift < 2) % 4u;",
  "let x = input[params.shift] % 2.0; let b = wid.x >> 2u; let c = b % 3u;",
]);

Deno.test("lintWgsl() enable-subgroups finds the directive, alone or in a list", () => {
  const found = (source: string) => lintWgsl(source).map(({ rule }) => rule);
  assert.deepEqual(found("enable subgroups;"), ["enable-subgroups"]);
  assert.deepEqual(found("enable f16, subgroups;"), ["enable-subgroups"]);
  assert.deepEqual(found("enable f16;\nrequires packed_4x8_integer_dot_product;"), []);
});

ruleTest("private-array", "arrays that every invocation has for itself", [
  "var a = array<f32, 4>(); a[0] = 1.0;",
  "let a = array(1.0, 2.0);",
], [
  "let x = tile[index] + input[index] + TABLE[index & 3u];",
  "var v = vec4<f32>(); let x = v[index];",
]);

Deno.test("lintWgsl() private-array finds arrays in private memory", () => {
  assert.deepEqual(rules("", "var<private> stack: array<f32, 8>;"), ["private-array"]);
});

Deno.test("lintWgsl() global-invocation-id finds the builtin, not the words in a comment", () => {
  const kernel = "@compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id: vec3u) {}";
  assert.deepEqual(lintWgsl(kernel).map(({ rule }) => rule), ["global-invocation-id"]);
  assert.deepEqual(lintWgsl("// global_invocation_id\n/* global_invocation_id /* */ */"), []);
});

ruleTest("tanh-clamp", "tanh of what is not clamped as a whole", [
  "let x = tanh(params.scale);",
  "let x = tanh(2.0 * clamp(params.scale, -9.0, 9.0));",
  "let x = tanh(clamp(params.scale, -9.0, 9.0) * 2.0);",
], [
  "let x = tanh(clamp(params.scale * twice(3.0), -9.0, 9.0));",
]);

ruleTest("swizzle-assignment", "assignments to several components", [
  "var v = vec4<f32>(); v.yz = vec2<f32>();",
  "var v = vec4<f32>(); v.rgb += vec3<f32>(1.0);",
  "tile_of_vectors[0].xyz = vec3<f32>();",
], [
  "var v = vec4<f32>(); v.x = 1.0; v = vec4<f32>(v.xy, v.zw);",
  "var p = params; p.scale = 1.0;",
]);

Deno.test("lintWgsl() tells the line and sorts by it", () => {
  const source = "fn f() {\n  let a = tanh(1.0);\n  var b: f32;\n}\nfn g() {\n  var c: f32;\n}";
  const found = lintWgsl(source).map(({ line, rule }) => `${line} ${rule}`);
  assert.deepEqual(found, ["2 tanh-clamp", "3 var-init", "6 var-init"]);
});

Deno.test("lintWgsl() reads everything that kernels are written with", () => {
  const source = `
enable f16;
diagnostic(off, derivative_uniformity);
alias Block = array<vec4<f32>, 2>;
struct S { @align(16) a: f32, @size(32) b: Block };
const_assert 1 < 2;
@id(3) override SIZE: u32 = 4u;
@must_use fn pick(a: vec2h, n: u32) -> vec2<f16> { return select(a, -a, n >= 3u && n <= 5); }
@compute @workgroup_size(SIZE, 1u, 1)
fn main(@builtin(workgroup_id) wid: vec3<u32>) {
  var n = 0x1Fu + 1u;
  n <<= 2u; n >>= 1u; n ^= 3u; n |= 1u; n &= 7u; n++; n--;
  let shifted = n >> 2u; let less = (n < 3u) == (2u > n);
  let big = 1e-5f + .5 + 0x1p-3f + 3.h;
  { let inner = a[0]; _ = inner; }
  while n < 10u { n += 1u; continue; }
  switch (n) { case 1u, 2u: { return; } case default { } }
  @diagnostic(off, subgroup_uniformity) if (n > 1u) { } else if n > 2u { } else { }
}`;
  assert.deepEqual(lintWgsl(source), []);
});

Deno.test("lintWgsl() refuses characters that WGSL does not know, with the line", () => {
  assert.throws(() => lintWgsl("fn f() {\n  let a = $; }"), {
    name: "SyntaxError",
    message: /^Cannot read the shader: line 2 has "\$"/,
  });
});
