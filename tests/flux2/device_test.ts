/** How the pipeline treats the device: memory, reuse, cancellation. What it computes is tested in `pipeline_test.ts`. */
import assert from "node:assert/strict";
import { OutOfMemoryError } from "../../runtime/mod.ts";
import { Golden } from "../support/golden.ts";
import { psnr } from "../support/pixels.ts";
import { type Fixture, withPipeline } from "../support/pipeline_fixture.ts";
import { checkSecondRequest } from "../support/second_request.ts";
import type { InputImage, PipelineControl, PipelineRequest } from "../../models/pipeline/types.ts";

const FOLDER = new Golden("flux2/pipeline").folder;

const REQUEST: PipelineRequest = {
  ...{ task: "T2I", prompt: "a red circle", negativePrompt: "" },
  ...{ width: 48, height: 32, numFrames: 1, seed: 3 },
  ...{ numInferenceSteps: 3, guidanceScale: 1, maxSequenceLength: 48 },
};
const EDIT: PipelineRequest = {
  ...REQUEST,
  task: "TI2I",
  images: [given(32, 16), given(16, 64), given(32, 16, 90)],
};

function given(width: number, height: number, shade = 5): InputImage {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => i * shade % 251);
  return { width, height, data };
}

const withFlux2 = (use: (fixture: Fixture) => Promise<void>, options: object = {}) =>
  withPipeline(use, { folder: FOLDER, ...options });

for (const [name, request] of [["text", REQUEST], ["input images", EDIT]] as const) {
  Deno.test(`Flux2Pipeline.generate() creates nothing on the device for a second request of a kind: ${name}`, () =>
    withFlux2((fixture) =>
      checkSecondRequest(fixture, request, { prompt: "a blue square", seed: 2 })
    ));
}

Deno.test("Flux2Pipeline.generate() takes every input image into account, each at its own place", () =>
  withFlux2(async ({ pipeline }) => {
    const [a, b, c] = EDIT.images!;
    const seen = new Set<string>();
    for (const images of [[a!], [a!, b!], [b!, a!], [a!, b!, c!], [c!, b!, a!]]) {
      const { latents } = await pipeline.generate({ ...EDIT, images });
      seen.add(latents.join());
    }
    assert.equal(seen.size, 5);
  }));

Deno.test("Flux2Pipeline.generate() shows in the preview after its last step what it gives, and changes nothing by it", () =>
  withFlux2(async ({ pipeline }) => {
    const plain = await pipeline.generate(EDIT);
    const previews: Float32Array[] = [];
    const result = await pipeline.generate(EDIT, {
      previews: 3,
      onPreview: (frame, index) => previews[index] = frame,
    });
    assert.deepEqual(result.latents, plain.latents);
    assert.deepEqual(result.frames, plain.frames);
    assert.equal(previews.length, 3);
    assert.ok(psnr(previews[2]!, plain.frames[0]!) > 90);
    assert.ok(psnr(previews[0]!, plain.frames[0]!) < 60);
  }));

Deno.test(
  "Flux2Pipeline.generate() keeps its image with less memory, then codes in tiles, then refuses; with DENOISE_SLOW",
  { ignore: !Deno.env.has("DENOISE_SLOW") },
  async () => {
    const request = { ...EDIT, width: 96, height: 192, numInferenceSteps: 1 };
    let bytes = 0;
    let whole: Float32Array = new Float32Array();
    await withFlux2(async ({ device, pipeline }) => {
      whole = (await pipeline.generate(request)).frames[0]!;
      bytes = device.peakBytes;
    });
    const full = bytes;
    const seen = { same: 0, tiled: 0, refused: 0 };
    while (seen.refused === 0) {
      bytes = bytes === full ? full - 1 : bytes * 0.7;
      await withFlux2(async ({ device, pipeline }) => {
        try {
          const [frame] = (await pipeline.generate(request)).frames;
          const decibels = psnr(frame!, whole);
          assert.ok(decibels > 15, `${decibels} dB`);
          assert.ok(device.peakBytes <= bytes);
          seen[decibels === Infinity ? "same" : "tiled"]++;
        } catch (error) {
          assert.ok(error instanceof OutOfMemoryError, `${error}`);
          assert.match(error.message, /Cannot make 96x192 from 3 images.*fewer images/s);
          seen.refused++;
        }
      }, { maxBytes: Math.floor(bytes) });
    }
    assert.ok(seen.same > 0 && seen.tiled > 0, JSON.stringify(seen));
  },
);

Deno.test("Flux2Pipeline.generate() stops within every stage when cancelled, and the next request is not touched by it", () =>
  withFlux2(async ({ device, pipeline }) => {
    const { latents } = await pipeline.generate(EDIT);
    const { allocatedBytes } = device;
    for (
      const [stage, step] of [
        ["encode", 0],
        ["encode", 1],
        ["encode", 3],
        ["denoise", 0],
        ["denoise", 1],
        ["decode", 0],
      ] as const
    ) {
      let reached = Infinity;
      const control: PipelineControl = {
        onProgress: (progress) => {
          if (progress.stage === stage && progress.step === step) reached = device.counters.submits;
        },
        isCancelled: () => device.counters.submits >= reached,
      };
      const request = { ...EDIT, prompt: `${stage} ${step}` };
      await assert.rejects(pipeline.generate(request, control), { name: "AbortError" });
      assert.ok(device.counters.submits - reached <= 2, `${stage} ${step}`);
    }
    assert.equal(device.allocatedBytes, allocatedBytes, "the programs are kept");
    assert.deepEqual((await pipeline.generate(EDIT)).latents, latents);
  }, { submitBudget: { flops: 3e6, bytes: 3e6 } }));

Deno.test("Flux2Pipeline.generate() encodes its prompt again only when it changes", () =>
  withFlux2(async ({ device, pipeline }) => {
    const waitsFor = async (request: PipelineRequest) => {
      const { waits } = device.counters;
      await pipeline.generate(request);
      return device.counters.waits - waits;
    };
    const first = await waitsFor(REQUEST);
    assert.equal(await waitsFor({ ...REQUEST, seed: 9 }), first - 1);
    assert.equal(await waitsFor({ ...REQUEST, prompt: "another" }), first);
  }));

Deno.test("Flux2Pipeline.generate() refuses what its model cannot make before it works", () =>
  withFlux2(async ({ device, pipeline }) => {
    const { submits } = device.counters;
    const eleven = new Array<InputImage>(11).fill(given(16, 16));
    const refused: [Partial<PipelineRequest>, RegExp][] = [
      [{ width: 50 }, /the width must be a multiple of 4, for example 52/],
      [{ numInferenceSteps: 0 }, /in 0 steps/],
      [{ task: "T2V" }, /Cannot do T2V: this model does T2I, TI2I/],
      [{ task: "TI2I" }, /Cannot do TI2I with 0 input images: it takes 1 to 10/],
      [{ images: [given(16, 16)] }, /Cannot do T2I with 1 input image: it takes none/],
      [{ ...EDIT, images: eleven }, /Cannot do TI2I with 11 input images: it takes 1 to 10/],
      [{ ...EDIT, images: [given(18, 16)] }, /an image of 18x16: its sides must be multiples/],
      [
        { ...EDIT, images: [{ ...given(16, 16), data: new Uint8Array(5) }] },
        /5 bytes of pixels: 16x16 in RGB has 768/,
      ],
    ];
    for (const [change, message] of refused) {
      const result = pipeline.generate({ ...REQUEST, ...change });
      await assert.rejects(result, { name: "RangeError", message });
    }
    assert.equal(device.counters.submits, submits);
  }));
