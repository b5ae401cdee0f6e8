import { strict as assert } from "node:assert";
import { fit, sizeInside } from "./fit.ts";

/** A row of four grey pixels. */
const ROW = {
  width: 4,
  height: 1,
  data: Uint8Array.from([0, 80, 160, 240].flatMap((value) => [value, value, value])),
};

/** The first channel, row by row. */
function greys({ data }: { readonly data: Uint8Array }): number[] {
  return [...data.filter((_, i) => i % 3 === 0)];
}

Deno.test("fit() with `contain` shows all of an image in the middle of black", () => {
  const image = fit(ROW, { contain: { width: 4, height: 3 } });
  assert.deepEqual(greys(image), [0, 0, 0, 0, 0, 80, 160, 240, 0, 0, 0, 0]);
});

Deno.test("fit() stretches where it scales to a frame and cuts nothing", () => {
  const frame = { width: 4, height: 2 };
  assert.deepEqual(greys(fit(ROW, { scaled: frame, cut: frame })), [
    ...[0, 80, 160, 240],
    ...[0, 80, 160, 240],
  ]);
});

Deno.test("fit() scales with the filter that is named", () => {
  const frame = { width: 2, height: 1 };
  const nearest = fit(ROW, { scaled: frame, cut: frame, filter: "nearest" });
  assert.deepEqual(greys(nearest), [80, 240]);
});

Deno.test("sizeInside() keeps the shape, and no side below 1", () => {
  assert.deepEqual(sizeInside({ width: 100, height: 50 }, { width: 64, height: 48 }), {
    width: 64,
    height: 32,
  });
  assert.deepEqual(sizeInside({ width: 1000, height: 1 }, { width: 64, height: 48 }), {
    width: 64,
    height: 1,
  });
});

Deno.test("fit() gives transparent images a white ground and black bars", () => {
  const image = { width: 2, height: 2, channels: 4 as const, data: new Uint8Array(16).fill(9) };
  for (let i = 3; i < 16; i += 4) image.data[i] = 0;
  const { data } = fit(image, { contain: { width: 4, height: 2 } });
  assert.deepEqual([...data.subarray(0, 12)], [0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0]);
});
