import assert from "node:assert/strict";
import { checkInputs } from "./check_request.ts";
import type { PipelineInfo, PipelineRequest } from "./types.ts";

const imageLimits = { multiple: 16, maxPixels: 64 * 64, minSide: 16, maxAspect: 8 };
const INFO = {
  ...{ maxImages: 2, maxEditImages: 2, inpainting: { strength: 0.8 }, taskDefaults: {} },
  ...{ supportedTasks: ["TI2I"], optionalParts: [], imageLimits },
} as unknown as PipelineInfo;

const image = (width: number, height: number) => ({
  ...{ width, height, data: new Uint8Array(width * height * 3) },
});

Deno.test("checkInputs() bounds the pixels of images of their own sizes, and not of the one that a mask keeps a part of", () => {
  const size = { width: 96, height: 64 };
  const request = { task: "TI2I", ...size, numFrames: 1 } as PipelineRequest;
  const masked = { ...request, mask: [new Uint8Array(96 * 64)], strength: 0.8 };
  checkInputs({ ...request, images: [image(64, 64)] }, INFO);
  checkInputs({ ...masked, images: [image(96, 64), image(64, 64)] }, INFO);
  const alone = { maxPixels: 96 * 64, minSide: 16, maxSide: 96 };
  const whole = { ...INFO, imageLimits: { ...imageLimits, alone } };
  checkInputs({ ...request, images: [image(96, 64)] }, whole);
  const tooMany = /Cannot start from an image of 96x64: .* it may have 4096 pixels/;
  for (
    const [images, each, info] of [
      [[image(96, 64)], request, INFO],
      [[image(96, 64), image(96, 64)], masked, INFO],
      [[image(96, 64), image(64, 64)], request, whole],
    ] as const
  ) {
    assert.throws(() => checkInputs({ ...each, images: [...images] }, info), tooMany);
  }
  assert.throws(
    () => checkInputs({ ...masked, images: [image(64, 64)] }, INFO),
    /Cannot start from an image of 64x64: the result has 96x64; scale it first/,
  );
});
