/** RIFE against the reference: frames between two, once and twice doubled. */
import { join } from "node:path";
import { recognise } from "../../models/checkpoints/recognise.ts";
import { parseConfig } from "../../models/config.ts";
import { FRAME_INTERPOLATOR_CONFIG, RIFE_FORMAT } from "../../models/frame_interpolators/ifnet.ts";
import { Session } from "../../models/memory/session.ts";
import { SessionRunner } from "../../models/memory/session_runner.ts";
import { openPipeline } from "../../models/mod.ts";
import { Finishing } from "../../models/pipeline/finishing.ts";
import { type Device, elementCount, type TensorSource, Weights } from "../../runtime/mod.ts";
import { Golden, transpose } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { type MemoryTensor, memoryTensors } from "../support/memory_tensors.ts";
import { openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";

import assert from "node:assert/strict";

const FILE = "diffusion_pytorch_model.safetensors";

/** What f32 gives against torch in f32. */
const MIN_PSNR = 80;

interface Picture {
  readonly height: number;
  readonly width: number;
  /** [height, width, 3]. */
  readonly pixels: Float32Array;
}

interface Doubling {
  readonly exponent: number;
  readonly scale: number;
  readonly tileSide?: number;
}

/** Both frames and those between. */
async function interpolate(
  device: Device,
  tensors: TensorSource,
  [first, second]: readonly [Picture, Picture],
  { tileSide, ...interpolation }: Doubling,
): Promise<Float32Array[]> {
  const [found] = recognise(tensors, [RIFE_FORMAT]);
  const json = found!.format.config(found!.tensors);
  const config = parseConfig(FRAME_INTERPOLATOR_CONFIG, json, FILE);
  const weights = new Weights(found!.tensors);
  const { width, height } = first;
  const session = new Session(device.target);
  const finishing = new Finishing(
    session,
    { frameInterpolator: { config, weights, path: "" } },
    { width, height, isUpscaled: false, interpolation },
    tileSide,
  );
  const runner = new SessionRunner(session, { "frame interpolator": weights });
  await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
  const frames: Float32Array[] = [];
  await runner.run(async (queue) => {
    finishing.begin();
    for (const { pixels } of [first, second]) finishing.take(pixels);
    while (finishing.hasWaiting) {
      await finishing.run(queue, (frame) => frames.push(frame));
      await queue.finish();
    }
  });
  runner.destroy();
  weights.destroy();
  return frames;
}

for (const name of ["narrow", "five", "plain"]) {
  Deno.test(`a frame interpolator gives the frames of the reference: rife/${name}`, async () => {
    const golden = new Golden(`rife/${name}`);
    const device = await openTestDevice();
    using checkpoint = golden.checkpoint(FILE);
    try {
      for (const { name: call, args, outputs } of golden.calls) {
        const image = (tensor: string): Picture => {
          const { shape, data } = transpose(golden.tensor(call, tensor), [0, 2, 3, 1]);
          const [, height, width] = shape as [number, number, number];
          return { height, width, pixels: Float32Array.from(data) };
        };
        const [first, second] = [image("first"), image("second")];
        const exponent = outputs.length === 1 ? 1 : 2;
        const results = await interpolate(device, checkpoint, [first, second], {
          ...{ exponent, scale: args["scale"] as number },
        });
        const names = exponent === 1 ? ["middle"] : ["quarter", "middle", "three_quarters"];
        assert.equal(results.length, names.length + 2);
        assert.deepEqual([results[0], results.at(-1)], [first.pixels, second.pixels]);
        for (const [i, between] of names.entries()) {
          const expected = image(between).pixels.map((value) => Math.min(1, Math.max(0, value)));
          const decibels = psnr(results[i + 1]!, expected);
          assert.ok(decibels > MIN_PSNR, `${call} ${between}: PSNR is ${decibels.toFixed(1)} dB`);
        }
      }
    } finally {
      device.destroy();
    }
  });
}

/** At scale 2 a unit of four blocks is 16 pixels, so that tiles of 256 share 128, of which the outer 32 are not used. */
const TILED = { exponent: 2, scale: 2, tileSide: 256 };
const SIZE = { height: 40, width: 384 };
/** Columns that both tiles have a share in. */
const SEAM = { start: 160, end: 224 };

/** The same far from the seam; random weights find motions that reach across it. */
const TOLERANCE = { outside: 1e-4, inside: 0.02 };

/** Waves of several lengths, all of it further left by `moved` pixels. */
function waves(moved: number, width = SIZE.width): Picture {
  const { height } = SIZE;
  const pixels = Float32Array.from({ length: height * width * 3 }, (_, i) => {
    const [c, x, y] = [i % 3, Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
    const at = x + moved;
    return 0.5 + 0.3 * Math.sin(0.21 * at + c) * Math.cos(0.13 * y) + 0.2 * Math.sin(0.047 * at);
  });
  return { height, width, pixels };
}

/** The greatest difference between columns of two frames. */
function greatest(a: Picture, b: Picture, start: number, end: number): number {
  let most = 0;
  for (let y = 0; y < a.height; y++) {
    for (let i = start * 3; i < end * 3; i++) {
      const difference = a.pixels[y * a.width * 3 + i]! - b.pixels[y * b.width * 3 + i]!;
      most = Math.max(most, Math.abs(difference));
    }
  }
  return most;
}

Deno.test("a frame interpolator gives in tiles what it gives for the whole, also at seams that things move across", async () => {
  const device = await openTestDevice();
  using checkpoint = new Golden("rife/plain").checkpoint(FILE);
  try {
    const pair = [waves(0), waves(24)] as const;
    const whole = await interpolate(device, checkpoint, pair, { ...TILED, tileSide: Infinity });
    const tiled = await interpolate(device, checkpoint, pair, TILED);
    for (const [i, pixels] of whole.entries()) {
      const [a, b] = [{ ...SIZE, pixels: tiled[i]! }, { ...SIZE, pixels }];
      const outside = Math.max(greatest(a, b, 0, SEAM.start), greatest(a, b, SEAM.end, SIZE.width));
      const inside = greatest(a, b, SEAM.start, SEAM.end);
      assert.ok(outside < TOLERANCE.outside, `frame ${i} differs by ${outside} outside the seam`);
      assert.ok(inside < TOLERANCE.inside, `frame ${i} differs by ${inside} at the seam`);
    }
    // A tile by itself is wrong at its edge: the neighbour's share is what makes the seam right.
    const side = 256;
    const alone = await interpolate(device, checkpoint, [waves(0, side), waves(24, side)], TILED);
    const [a, b] = [alone, whole].map((frames) => frames[2]!);
    const edge = greatest(
      { height: SIZE.height, width: side, pixels: a! },
      { ...SIZE, pixels: b! },
      side - 32,
      side,
    );
    assert.ok(edge > 2 * TOLERANCE.inside, `the edge of a tile differs by ${edge} only`);
  } finally {
    device.destroy();
  }
});

/** A network whose answer is a motion of so many pixels to the left from one frame to the next. */
function constantMotion(tensors: TensorSource, pixels: number): TensorSource {
  const weights = [...tensors.names].map((name): [string, MemoryTensor] => {
    const { shape } = tensors.find(name)!;
    const values = new Float32Array(elementCount(shape));
    if (name === "block0.lastconv.0.bias") {
      // Four pixels of each channel; the coarsest block counts in steps of 4 pixels here.
      values.fill(pixels / 2 / 4, 0, 4);
      values.fill(-pixels / 2 / 4, 8, 12);
    }
    return [name, { format: "F32", shape, bytes: new Uint8Array(values.buffer) }];
  });
  return memoryTensors(Object.fromEntries(weights));
}

Deno.test("a frame interpolator in tiles moves what crosses a seam to where it is, by as much as the unused edge", async () => {
  const device = await openTestDevice();
  using checkpoint = new Golden("rife/plain").checkpoint(FILE);
  try {
    const motion = 64;
    const frames = await interpolate(
      device,
      constantMotion(checkpoint, motion),
      [waves(0), waves(motion)],
      { ...TILED, exponent: 1 },
    );
    const [actual, expected] = [{ ...SIZE, pixels: frames[1]! }, waves(motion / 2)];
    const error = greatest(actual, expected, motion / 2, SIZE.width - motion / 2);
    assert.ok(error < 1e-5, `the frame between differs by ${error}`);
  } finally {
    device.destroy();
  }
});

Deno.test("a pipeline plans tiles of frames between others where whole ones do not fit", async () => {
  const device = await openTestDevice();
  using pipeline = await openPipeline(new Golden("wan/pipeline-t2v").folder, {
    frameInterpolator: join(new Golden("rife/plain").folder, FILE),
  });
  try {
    const bytes = async (width: number, budget: number) => {
      const size = { width, height: 32, numFrames: 5, enableFrameInterpolation: true };
      const { stages } = await pipeline.plan({ ...size, frameInterpolationScale: 2 }, {
        target: device.target,
        availableBytes: Infinity,
        measure: () => budget,
      });
      return stages.find(({ name }) => name === "interpolate")!.activationBytes;
    };
    const whole = await bytes(512, Infinity);
    const tiled = await bytes(512, 0);
    assert.ok(tiled < 0.6 * whole, `${tiled} bytes in tiles, ${whole} for whole frames`);
    assert.equal(await bytes(384, 0), tiled);
  } finally {
    device.destroy();
  }
});

Deno.test("enableFrameInterpolation puts frames between those of a video, and upscales them too", async () => {
  const golden = new Golden("wan/pipeline-t2v");
  const file = (name: string) => join(new Golden(name).folder, FILE);
  const device = await openTestDevice();
  using pipeline = await openPipeline(golden.folder, {
    upscaler: file("upscalers/compact"),
    frameInterpolator: file("rife/plain"),
  });
  try {
    await pipeline.load(device);
    const request = { ...textRequest(golden.call("clip5")), width: 32, height: 32 };
    const all = { enableFrameInterpolation: true, frameInterpolationExp: 2, enableUpscaling: true };
    const { frames } = await pipeline.generate({ ...request, ...all, numInferenceSteps: 1 });
    assert.deepEqual(
      frames.map(({ length }) => length),
      new Array<number>(17).fill(4 * request.width * request.height * 3),
    );
  } finally {
    device.destroy();
  }
});

Deno.test("a frame interpolator is recognised by ComfyUI's names", () => {
  using checkpoint = new Golden("rife/narrow").checkpoint(FILE);
  const ours = (name: string) => name.replace(/^blocks\.(\d)/, "block$1");
  const renamed = {
    path: checkpoint.path,
    names: [...checkpoint.names].map((name) =>
      `flownet.${name.replace(/^block(\d)/, "blocks.$1")}`
    ),
    find: (name: string) => checkpoint.find(ours(name.replace("flownet.", ""))),
    read: () => {},
  };
  const [[found], [own]] = [
    recognise(renamed, [RIFE_FORMAT]),
    recognise(checkpoint, [RIFE_FORMAT]),
  ];
  assert.deepEqual(found!.format.config(found!.tensors), own!.format.config(own!.tensors));
});
