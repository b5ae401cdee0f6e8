import assert from "node:assert/strict";
import { CATALOGUE } from "../hub/catalogue.ts";
import { choosePrecision, downloadBytes, fits } from "../hub/precision.ts";
import type { StockedModel } from "../hub/stock.ts";
import { describeStock } from "./cached.ts";

/** The catalogue on a GPU of so many bytes, of which some models are here. */
function stockOf(bytes: number, states: Record<string, StockedModel["state"]> = {}) {
  return CATALOGUE.map((entry): StockedModel => {
    const precision = choosePrecision(entry, bytes);
    return {
      ...{ entry, precision, cachedBytes: 5e9, state: states[entry.name] ?? "absent" },
      ...{ downloadBytes: downloadBytes(entry, precision), fits: fits(entry, precision, bytes) },
    };
  });
}

Deno.test("describeStock() names every model within 80 columns, what fits, and one to begin with", () => {
  for (const bytes of [1e9, 8e9, 80e9]) {
    const lines = describeStock(stockOf(bytes), bytes).split("\n");
    for (const line of lines) assert.ok(line.length <= 80, line);
    for (const { name } of CATALOGUE) assert.ok(lines.some((line) => line.includes(` ${name} `)));
    const [fit, larger] = ["Fit", "Larger"].map((word) =>
      lines.findIndex((line) => line.startsWith(word))
    ) as [number, number];
    assert.deepEqual([fit > 0, larger > 0], [bytes > 1e9, bytes < 80e9]);
  }
  const text = describeStock(stockOf(8e9, { "sd-1.5": "present", "sdxl-base": "partial" }), 8e9);
  assert.match(
    text,
    /^On this machine:\n {2}sd-1\.5 +5\.0 BF16 +images .*\nA part .*\n {2}sdxl-base /m,
  );
  assert.match(
    text,
    /^Fit 8\.0 GB of GPU memory, where their parts take turns:\n {2}z-image-turbo +13\.4 Q6_K +images +Apache/m,
  );
  assert.match(text, /^Begin with z-image-turbo: photos .*\n {2}denoise run z-image-turbo "/m);
  assert.match(describeStock(stockOf(4e9), 4e9), /^Begin with sd-1\.5: small cards/m);
});
