import { strict as assert } from "node:assert";
import type { TensorSource } from "../../runtime/mod.ts";
import { type LowRankForm, openLowRank } from "./low_rank_source.ts";

/** Tensors of f32 in a file. */
function source(path: string, shapes: Record<string, readonly number[]>): TensorSource {
  return {
    path,
    names: Object.keys(shapes),
    find: (name) => {
      const shape = shapes[name];
      if (!shape) return undefined;
      return { name, shape, format: "F32", byteLength: 4 * shape.reduce((a, b) => a * b, 1) };
    },
    read: (_name, _start, target) => void target.fill(0),
  };
}

const FORM: LowRankForm = {
  base: "unet",
  isFor: () => true,
  config: (own) => own,
  layout: { name: "plain", prefixes: [], entries: [] },
  has: () => true,
};

Deno.test("openLowRank() pairs the factors of each module, and refuses halves, ranks that differ and other models", () => {
  const base = source("base", { "a.weight": [4, 6], "b.weight": [4, 6] });
  const open = (shapes: Record<string, readonly number[]>) =>
    openLowRank(source("net", shapes), base, FORM).change;
  const [up, down] = [[4, 2], [2, 6]];
  const change = open({ "a.up": up, "a.down": down, "b.bias": [4], lora_controlnet: [0] });
  assert.deepEqual(change.changes.map(({ module }) => module), ["a"]);
  assert.equal(change.byteLength, 4 * (8 + 12));
  const refusals: [Record<string, readonly number[]>, RegExp][] = [
    [{ "a.up": up }, /^Cannot use "net": it changes "a", and lacks "a\.down"; fetch it again/],
    [{ "a.down": down }, /^Cannot use "net": it changes "a", and lacks "a\.up"; fetch it again/],
    [{ "a.up": [4, 3], "a.down": down }, /"a\.up" has rank 3 and "a\.down" has 2; fetch it again/],
    [{ "c.up": up, "c.down": down }, /which the model lacks; it is for another model/],
    [{ "a.up": [5, 2], "a.down": down }, /as a matrix of 5x6, the model has one of another size/],
  ];
  for (const [shapes, message] of refusals) assert.throws(() => open(shapes), { message });
});
