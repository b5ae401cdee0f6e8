import assert from "node:assert/strict";
import { expandInclude, KernelFile } from "./kernel_file.ts";

const SOURCE = `//#param ROWS: u32
//#param FAST: bool = true
//#param KIND: a | b = a
//#workgroup ROWS, 1, 1
fn kernel(wg: vec3<u32>, local: vec3<u32>) {}`;

Deno.test("KernelFile.kernel() names a kernel by its file and what differs from the defaults", () => {
  const file = new KernelFile("test/kernel", SOURCE);
  assert.equal(file.kernel({ ROWS: 8 }).name, "test/kernel rows=8");
  assert.equal(
    file.kernel({ ROWS: 8, FAST: false, KIND: "b" }).name,
    "test/kernel rows=8 !fast kind=b",
  );
});

Deno.test("KernelFile.kernel() makes each specialisation once", () => {
  const file = new KernelFile("test/kernel", SOURCE);
  assert.equal(file.kernel({ ROWS: 8 }), file.kernel({ ROWS: 8 }));
  assert.notEqual(file.kernel({ ROWS: 8 }), file.kernel({ ROWS: 4 }));
});

Deno.test("KernelFile.kernel() refuses a file without a workgroup", () => {
  const file = new KernelFile("test/kernel", "fn kernel(wg: vec3<u32>, local: vec3<u32>) {}");
  assert.throws(() => file.kernel(), /^ShaderError: Cannot expand test\/kernel.wgsl:1: it has no/);
});

Deno.test("expandInclude() gives the functions of a format for a buffer", () => {
  const wgsl = expandInclude("formats/q8_0.wgsl", { NAME: "w" });
  assert.match(wgsl, /^fn w_scaled\(i: u32, s: vec2<f32>\) -> vec4<f32> \{$/m);
  assert.throws(() => expandInclude("formats/q3.wgsl", { NAME: "w" }), /includes.ts does not list/);
});
