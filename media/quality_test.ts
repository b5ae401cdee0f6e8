import { strict as assert } from "node:assert";
import { resolveQuality } from "./quality.ts";

Deno.test("resolveQuality() knows the presets and falls back to the default of the medium", () => {
  const table: [string | null | undefined, number, number][] = [
    ["maximum", 100, 100],
    ["high", 90, 90],
    ["medium", 55, 55],
    ["low", 35, 35],
    ["default", 75, 50],
    ["unheard of", 75, 50],
    ["constructor", 75, 50],
    ["", 75, 50],
    [null, 75, 50],
    [undefined, 75, 50],
  ];
  for (const [preset, image, video] of table) {
    assert.equal(resolveQuality(preset, undefined, "image"), image, `${preset}`);
    assert.equal(resolveQuality(preset, null, "video"), video, `${preset}`);
  }
});

Deno.test("resolveQuality() lets a number win, zero included, and refuses one out of range", () => {
  assert.equal(resolveQuality("maximum", 0, "image"), 0);
  assert.equal(resolveQuality("low", 100, "video"), 100);
  for (const value of [-1, 101, NaN, Infinity]) {
    assert.throws(() => resolveQuality("high", value, "image"), /must be between 0 and 100$/);
  }
});
