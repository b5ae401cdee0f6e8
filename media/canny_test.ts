import { strict as assert } from "node:assert";
import { createHash } from "node:crypto";
import goldens from "../tests/goldens/media/canny.json" with { type: "json" };
import { noise } from "../tests/support/pixels.ts";
import { cannyEdges } from "./canny.ts";

type Case = [
  width: number,
  height: number,
  block: number,
  isSmooth: boolean,
  low: number,
  high: number,
  edges: number,
  digest: string,
];

/** Squares of noise, plain or each pixel the mean of the 5 x 5 around it. */
function picture(width: number, height: number, block: number, isSmooth: boolean): Uint8Array {
  const columns = Math.ceil(width / block);
  const { data: coarse } = noise(columns, Math.ceil(height / block));
  const plain = new Uint8Array(width * height * 3);
  const all = (give: (x: number, y: number, c: number) => number) => {
    const data = new Uint8Array(plain.length);
    for (let i = 0; i < data.length; i++) {
      const pixel = Math.floor(i / 3);
      data[i] = give(pixel % width, Math.floor(pixel / width), i % 3);
    }
    return data;
  };
  plain.set(
    all((x, y, c) => coarse[(Math.floor(y / block) * columns + Math.floor(x / block)) * 3 + c]!),
  );
  if (!isSmooth) return plain;
  const clamp = (value: number, most: number) => Math.min(most, Math.max(0, value));
  return all((x, y, c) => {
    let sum = 0;
    for (let dy = -2; dy <= 2; dy++) {
      for (let dx = -2; dx <= 2; dx++) {
        sum += plain[(clamp(y + dy, height - 1) * width + clamp(x + dx, width - 1)) * 3 + c]!;
      }
    }
    return Math.floor(sum / 25);
  });
}

Deno.test("cannyEdges() gives OpenCV's edges, of noise, squares and smooth pictures", () => {
  const cases = goldens.cases as unknown as Case[];
  assert.ok(cases.length >= 200);
  const pictures = new Map<string, Uint8Array>();
  for (const [width, height, block, isSmooth, low, high, count, digest] of cases) {
    const name = `${width}x${height}, squares of ${block}, ${isSmooth ? "smooth" : "plain"}`;
    const data = pictures.get(name) ?? picture(width, height, block, isSmooth);
    pictures.set(name, data);
    const rgb = cannyEdges(data, width, height, { low, high });
    const edges = rgb.filter((_, i) => i % 3 === 0);
    assert.deepEqual(rgb.filter((_, i) => i % 3 === 2), edges);
    assert.equal(edges.filter((value) => value === 255).length, count, `${name}, ${low}, ${high}`);
    const got = createHash("sha256").update(edges).digest("hex").slice(0, 16);
    assert.equal(got, digest, `${name}, ${low}, ${high}`);
  }
});
