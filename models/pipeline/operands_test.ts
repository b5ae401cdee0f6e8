import assert from "node:assert/strict";
import { SaturationError } from "../../runtime/mod.ts";
import { OverflowError } from "./non_finite.ts";
import { Operands } from "./operands.ts";
import type { PipelineRequest } from "./types.ts";

const REQUEST = { quality: "high" } as PipelineRequest;
const WITH_LORA = { ...REQUEST, loras: [{}] } as unknown as PipelineRequest;

Deno.test("Operands.widen() does without int8 after an overflow, once", () => {
  const operands = new Operands();
  const notes: string[] = [];
  const note = (text: string) => notes.push(text);
  assert.equal(operands.of(REQUEST), "int8");
  assert.equal(operands.widen(new OverflowError(), REQUEST, note), true);
  assert.equal(operands.of(REQUEST), undefined);
  assert.equal(operands.widen(new OverflowError(), REQUEST, note), false);
  assert.deepEqual(notes, [
    "The transformer's values overflow with factors of int8: from now on computed without them",
  ]);
});

Deno.test("Operands.widen() names the layers that f16 does not hold, and takes each once", () => {
  const operands = new Operands();
  const notes: string[] = [];
  const layers = Array.from({ length: 10 }, (_, i) => `blocks.${i}`);
  const error = new SaturationError(layers);
  assert.equal(operands.widen(error, WITH_LORA, (text) => notes.push(text)), true);
  assert.equal(operands.widen(error, WITH_LORA), false);
  assert.match(notes[0]!, /this request computes with f32: blocks\.0, .* and 2 more$/);
});

Deno.test("Operands.restore() forgets what was found with LoRAs", () => {
  const operands = new Operands();
  const { found } = operands;
  assert.equal(operands.restore(found), false);
  operands.widen(new OverflowError(), WITH_LORA);
  assert.equal(operands.restore(found), true);
  assert.equal(operands.of(REQUEST), "int8");
});
