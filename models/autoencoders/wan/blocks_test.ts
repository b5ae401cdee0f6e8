import type { Tensor } from "../../../runtime/mod.ts";
import { randomNormal } from "../../../runtime/ops/ndarray.ts";
import { assertClose, type Values } from "../../../tests/support/golden.ts";
import { ModelRun, openTestDevice } from "../../../tests/support/model_run.ts";
import { addDuplicateUp, averageDown, foldPatches, unfoldPatches } from "./blocks.ts";

/** Element of [1, frames, height, width, channels]; 0 before the first frame. */
function at({ shape, data }: Values, t: number, y: number, x: number, c: number): number {
  const [, , height, width, channels] = shape as [number, number, number, number, number];
  return t < 0 ? 0 : data[((t * height + y) * width + x) * channels + c]!;
}

function build(
  [frames, height, width, channels]: readonly [number, number, number, number],
  element: (t: number, y: number, x: number, c: number) => number,
): Values {
  const data: number[] = [];
  for (let t = 0; t < frames; t++) {
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        for (let c = 0; c < channels; c++) data.push(element(t, y, x, c));
      }
    }
  }
  return { shape: [1, frames, height, width, channels], data };
}

interface Case {
  readonly name: string;
  readonly x: Values;
  readonly trace: (x: Tensor) => Tensor;
  readonly expected: Values;
}

async function check(cases: readonly Case[]): Promise<void> {
  const device = await openTestDevice();
  try {
    for (const { name, x, trace, expected } of cases) {
      using run = await ModelRun.prepare(
        device,
        undefined,
        { x },
        (_, { x }) => ({ y: trace(x!) }),
      );
      await run.run();
      assertClose(name, await run.read("y"), expected, 1e-6);
    }
  } finally {
    device.destroy();
  }
}

/** Channel `flat` of space-time patches folded into channels, in the order (channel, frame, row, column). */
function folded(
  x: Values,
  ft: number,
  fs: number,
  flat: number,
  t: number,
  y: number,
  column: number,
): number {
  const [ix, iy] = [flat % fs, Math.floor(flat / fs) % fs];
  const it = Math.floor(flat / (fs * fs)) % ft;
  const padding = x.shape[1]! % ft === 0 ? 0 : ft - x.shape[1]! % ft;
  return at(
    x,
    t * ft + it - padding,
    y * fs + iy,
    column * fs + ix,
    Math.floor(flat / (fs * fs * ft)),
  );
}

Deno.test("averageDown() averages groups of folded channels, frames of zeros in front of odd chunks", async () => {
  const cases: Case[] = [];
  for (
    const [frames, channels, outChannels, temporal, spatial] of [
      [1, 4, 16, false, true],
      [4, 4, 8, true, true],
      [1, 4, 32, true, true],
      [1, 3, 6, true, true],
      [2, 6, 3, false, false],
      [2, 6, 6, false, false],
    ] as const
  ) {
    const x = randomNormal([1, frames, 4, 6, channels], 1);
    const [ft, fs] = [temporal ? 2 : 1, spatial ? 2 : 1];
    const group = channels * ft * fs * fs / outChannels;
    const sizes = [Math.ceil(frames / ft), 4 / fs, 6 / fs, outChannels] as const;
    cases.push({
      name: `${channels} to ${outChannels} channels, ${frames} frames, groups of ${group}`,
      x,
      trace: (x) => averageDown(x, outChannels, temporal, spatial),
      expected: build(sizes, (t, y, column, out) => {
        let sum = 0;
        for (let m = 0; m < group; m++) sum += folded(x, ft, fs, out * group + m, t, y, column);
        return sum / group;
      }),
    });
  }
  await check(cases);
});

Deno.test("addDuplicateUp() adds unfolded repeated channels, without the frame before the first of a video", async () => {
  const cases: Case[] = [];
  for (
    const [channels, outChannels, temporal, place] of [
      [8, 2, false, "only"],
      [8, 4, false, "next"],
      [8, 4, true, "first"],
      [8, 4, true, "next"],
      [4, 4, true, "next"],
      [16, 2, true, "only"],
      [8, 6, true, "next"],
      [2, 4, true, "first"],
    ] as const
  ) {
    const frames = place === "next" ? 2 : 1;
    const x = randomNormal([1, frames, 3, 2, channels], 2);
    const ft = temporal ? 2 : 1;
    const repeats = outChannels * ft * 4 / channels;
    const dropped = place === "next" ? 0 : ft - 1;
    const y = randomNormal([1, frames * ft - dropped, 6, 4, outChannels], 3);
    cases.push({
      name: `${channels} to ${outChannels} channels, ${place} chunk, repeated ${repeats} times`,
      x,
      trace: (x) =>
        addDuplicateUp(
          x.graph.constant("y", y.shape, "f32", Float32Array.from(y.data)),
          x,
          temporal,
          place,
        ),
      expected: build([frames * ft - dropped, 6, 4, outChannels], (frame, row, column, out) => {
        const t = frame + dropped;
        const flat = ((out * ft + t % ft) * 2 + row % 2) * 2 + column % 2;
        const own = at(x, Math.floor(t / ft), row >> 1, column >> 1, Math.floor(flat / repeats));
        return at(y, frame, row, column, out) + own;
      }),
    });
  }
  await check(cases);
});

Deno.test("foldPatches() orders channels by (channel, column, row), and unfoldPatches() undoes it", async () => {
  const x = randomNormal([1, 2, 4, 6, 3], 3);
  await check([
    {
      name: "folded",
      x,
      trace: (x) => foldPatches(x, 2),
      expected: build([2, 2, 3, 12], (t, y, column, flat) => {
        const [iy, ix] = [flat % 2, Math.floor(flat / 2) % 2];
        return at(x, t, 2 * y + iy, 2 * column + ix, Math.floor(flat / 4));
      }),
    },
    { name: "unfolded", x, trace: (x) => unfoldPatches(foldPatches(x, 2), 2), expected: x },
  ]);
});
