import { strict as assert } from "node:assert";
import { lora, type LoraFlag, seeds } from "./flag_readers.ts";

Deno.test("seeds() collects over arguments, with commas or spaces", () => {
  assert.deepEqual(seeds("3", seeds("1,2")), [1, 2, 3]);
  assert.deepEqual(seeds(" 1, 2 3 "), [1, 2, 3]);
  assert.throws(() => seeds("1,,x"), RangeError);
});

Deno.test("lora() reads a path with strength, target and alpha, and leaves other colons to the path", () => {
  const cases: [text: string, lora: LoraFlag][] = [
    ["a.safetensors", { path: "a.safetensors" }],
    ["a.safetensors:0.8", { path: "a.safetensors", strength: 0.8 }],
    ["org/name:-1:transformer_2", { path: "org/name", strength: -1, target: "transformer_2" }],
    ["a.safetensors:all", { path: "a.safetensors", target: "all" }],
    ["C:\\x\\a.safetensors:1e-1", { path: "C:\\x\\a.safetensors", strength: 0.1 }],
    ["a:b", { path: "a:b" }],
    ["a.safetensors:alpha=16", { path: "a.safetensors", alpha: 16 }],
    ["a:0.5:all:alpha=0.5", { path: "a", strength: 0.5, target: "all", alpha: 0.5 }],
  ];
  for (const [text, expected] of cases) assert.deepEqual(lora(text), [expected]);
  assert.deepEqual(lora("b", lora("a")), [{ path: "a" }, { path: "b" }]);
  for (
    const text of [
      "",
      "a.safetensors:x",
      "a:1:x",
      "a.safetensors:1:transformer:2",
      "a:alpha=",
      "a:alpha=0",
    ]
  ) {
    assert.throws(() => lora(text), RangeError, text);
  }
});
