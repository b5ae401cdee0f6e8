/** Whole LTX-2 pipelines against diffusers: same folder, prompt, image and seed, from text to pixels and sound. */
import assert from "node:assert/strict";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseConfig } from "../../models/config.ts";
import { LTX2_TRANSFORMER_CONFIG } from "../../models/families/ltx2/config.ts";
import { checkLtx2Guidance, ltx2Passes } from "../../models/families/ltx2/guidance.ts";
import { DISTILLED_SIGMAS, ltx2Schedule } from "../../models/families/ltx2/schedule.ts";
import type { Waveform } from "../../media/waveform.ts";
import type { Lora, Pipeline, PipelineControl, PipelineRequest } from "../../models/mod.ts";
import { FlowMatchEulerScheduler } from "../../models/schedulers/mod.ts";
import { checkBudgets } from "../support/budgets.ts";
import { assertClose, Golden, type GoldenCall } from "../support/golden.ts";
import { kohya } from "../support/image_pipeline.ts";
import { readRenamed } from "../support/lora_files.ts";
import { withFolder } from "../support/safetensors.ts";
import { tensorsOf, writeSafetensors } from "../support/single_files.ts";
import { textRequest } from "../support/golden_request.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { psnr } from "../support/pixels.ts";

/** Gates of f32 against torch in f32. */
const MIN_PSNR = 50;
const MIN_SNR = 40;
const LATENT_GATE = 1e-3;

function requestOf(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const number = (key: string) => args[key] as number;
  const { width, height, ...request } = textRequest(call);
  const framesOf = (input: string) => {
    const bytes = Uint8Array.from(golden.tensor(name, input).data);
    const size = width * height * 3;
    return Array.from(
      { length: bytes.length / size },
      (_, i) => bytes.slice(i * size, (i + 1) * size),
    );
  };
  return {
    ...request,
    width,
    height,
    fps: number("frame_rate"),
    maxSequenceLength: number("max_sequence_length"),
    ...(number("stg_scale") > 0 && {
      stgScale: number("stg_scale"),
      stgBlocks: args["spatio_temporal_guidance_blocks"] as number[],
    }),
    modalityScale: number("modality_scale"),
    guidanceRescale: number("guidance_rescale"),
    // A sound that is given has no guidance.
    ...(!inputs.includes("sound") && {
      audioGuidanceScale: number("audio_guidance_scale"),
      audioModalityScale: number("audio_modality_scale"),
      audioGuidanceRescale: number("audio_guidance_rescale"),
      ...(number("audio_stg_scale") > 0 && { audioStgScale: number("audio_stg_scale") }),
    }),
    ...(args["sigmas"] !== undefined && { sigmas: args["sigmas"] as number[] }),
    ...(args["two_stages"] === true && { twoStages: true }),
    ...(args["image_frames"] !== undefined && {
      imageFrames: args["image_frames"] as number[],
      imageStrengths: args["image_strengths"] as number[],
    }),
    ...(inputs.some((input) => /^images?$/.test(input)) && { task: "I2V" as const }),
    ...(inputs.includes("video") && { task: "F2V" as const, video: framesOf("video") }),
    ...(inputs.includes("control") && {
      ...{ task: "V2V" as const, video: framesOf("control") },
      controlScale: [number("control_scale")],
    }),
    ...(inputs.includes("sound") && { audio: soundOf(golden, name) }),
    images: ["images", "image", "last_image"].filter((input) => inputs.includes(input)).flatMap(
      framesOf,
    )
      .map((data) => ({ width, height, data })),
  };
}

/** A sound that a call gives, which the autoencoder hears at its own rate. */
function soundOf(golden: Golden, name: string): Waveform {
  const { shape: [count], data } = golden.tensor(name, "sound");
  const samples = Float32Array.from(data);
  const length = samples.length / count!;
  const channels = Array.from(
    { length: count! },
    (_, i) => samples.slice(i * length, (i + 1) * length),
  );
  return { sampleRate: 16_000, channels };
}

async function check(
  golden: Golden,
  pipeline: Pipeline,
  call: GoldenCall,
  change: Partial<PipelineRequest> = {},
  control?: PipelineControl,
): Promise<void> {
  const request = { ...requestOf(golden, call), ...change };
  const { frames, latents, audio } = await pipeline.generate(request, control);
  const expected = golden.tensor(call.name, "latents");
  assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
  const video = golden.tensor(call.name, "frames");
  assert.equal(frames.length, request.numFrames);
  // Of all frames, the golden has the first one, that in the middle and the last one.
  const kept = [0, (frames.length - 1) / 2, frames.length - 1].map((place) => frames[place]!);
  const pixels = Float32Array.from(kept.flatMap((frame) => Array.from(frame)));
  const likeness = psnr(pixels, Float32Array.from(video.data));
  assert.ok(likeness >= MIN_PSNR, `${call.name}: ${likeness} dB`);
  assert.equal(audio === undefined, request.audio !== undefined);
  // Of a sound that is given, the golden has the latents.
  if (!audio || !golden.namesOf(call.name).includes("audio")) return;
  const sound = golden.tensor(call.name, "audio");
  assert.deepEqual([audio.channels.length, audio.channels[0]!.length], sound.shape);
  const heard = audio.channels.flatMap((channel) => Array.from(channel));
  const noise = heard.reduce((sum, value, i) => sum + (value - sound.data[i]!) ** 2, 0);
  const signal = heard.reduce((sum, _, i) => sum + sound.data[i]! ** 2, 0);
  const clearness = 10 * Math.log10(signal / noise);
  if (Deno.env.get("DENOISE_SHOW_ERRORS")) {
    console.log(`${call.name}: ${likeness.toFixed(1)} dB, sound ${clearness.toFixed(1)} dB`);
  }
  assert.ok(clearness >= MIN_SNR, `${call.name}: sound ${clearness} dB`);
}

const LATER = new Golden("ltx2/pipeline23");
const FIRST = new Golden("ltx2/pipeline");
const STAGES = new Golden("ltx2/stages");
const KEYFRAMES = new Golden("ltx2/keyframes");
const GIVEN = new Golden("ltx2/given");
const REFINED = new Golden("ltx2/refined");
const HALF_MORE = new Golden("ltx2/half_more");
const ignore = !Deno.env.has("DENOISE_SLOW");

/** The golden's adapter, under the names of a dialect. */
function adapter({ adaptable }: Pipeline, rename: (key: string) => string): Promise<Lora> {
  return readRenamed(`${LATER.folder}/adapter.safetensors`, adaptable, rename);
}

Deno.test("LTX2Pipeline.generate() gives the latents, frames and sound of LTX-2.3 in diffusers, guided in every way, from images for any frame, and with a LoRA in any dialect", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    for (const call of LATER.calls.filter((call) => call.name !== "adapted")) {
      await t.step(call.name, () => check(LATER, pipeline, call));
    }
    for (const name of ["guided", "middle"]) {
      const call = KEYFRAMES.call(name);
      await t.step(`key frames, ${name}`, () => check(KEYFRAMES, pipeline, call));
    }
    for (const name of ["heard", "control"]) {
      const call = GIVEN.call(name);
      await t.step(`given, ${name}`, () => check(GIVEN, pipeline, call));
    }
    const halved = {
      dialect: "none",
      changes: [],
      unmatchedKeys: [],
      byteLength: 0,
      referenceScale: 2,
    };
    const seen = [{
      key: "halved",
      lora: halved,
      strength: 1,
      mode: "dynamic" as const,
      targets: [],
    }];
    await t.step(
      "given, halved",
      () => check(GIVEN, pipeline, GIVEN.call("halved"), { loras: seen }),
    );
    const [lora, ...others] = await Promise.all([
      adapter(pipeline, (key) => key),
      adapter(pipeline, (key) => key.replace("diffusion_model.", "base_model.model.")),
      adapter(pipeline, kohya("diffusion_model.")),
    ]);
    for (const other of others) assert.deepEqual(other.changes, lora!.changes);
    const call = LATER.call("adapted");
    const strength = call.args["strength"] as number;
    const targets = ["transformer"] as const;
    const loras = [{ key: "adapter", lora: lora!, strength, mode: "dynamic" as const, targets }];
    await t.step(call.name, () => check(LATER, pipeline, call, { loras }));
  }, { folder: LATER.folder });
});

/** A model with a latent upsampler, in a folder whose name says that it is distilled: nothing else does. */
function distilled(path: string, stages = STAGES): string {
  const folder = join(path, "ltx-2.3-distilled");
  for (const golden of [LATER, stages]) cpSync(golden.folder, folder, { recursive: true });
  return folder;
}

Deno.test("LTX2Pipeline.generate() gives those of two stages, of a distilled model with a latent upsampler, and refuses sizes without a half", async (t) => {
  await withFolder({}, async (path) => {
    const folder = distilled(path);
    await withPipeline(async ({ pipeline }) => {
      const steps: string[] = [];
      const previews: number[] = [];
      const request = requestOf(STAGES, STAGES.call("text"));
      await t.step("ends", () => check(STAGES, pipeline, STAGES.call("ends")));
      await t.step("key frames", () => check(KEYFRAMES, pipeline, KEYFRAMES.call("stages")));
      await check(STAGES, pipeline, STAGES.call("text"), {}, {
        previews: 3,
        onPreview: (frame, index) => {
          previews.push(index);
          assert.equal(frame.length, request.width * request.height * 3);
        },
        onProgress: ({ stage, step, totalSteps }) => {
          if (stage === "denoise") steps.push(`${step} of ${totalSteps}`);
        },
      });
      assert.deepEqual(previews, [0, 1, 2]);
      assert.deepEqual(steps, Array.from({ length: 12 }, (_, i) => `${i} of 11`));
      await assert.rejects(
        pipeline.generate({ ...request, width: 96 }),
        /96x128 with twoStages: sides must be multiples of 64, from 128/,
      );
    }, { folder });
    await withPipeline(async ({ pipeline }) => {
      const request = requestOf(STAGES, STAGES.call("text"));
      await assert.rejects(pipeline.generate(request), /twoStages/);
    }, { folder: LATER.folder });
    const beside = join(folder, "latent_upsampler");
    const latentUpsampler = join(path, "upscaler.safetensors");
    writeSafetensors(latentUpsampler, tensorsOf(beside));
    rmSync(beside, { recursive: true });
    await withPipeline(async ({ pipeline }) => {
      await t.step("a file", () => check(STAGES, pipeline, STAGES.call("text")));
    }, { folder, parts: { latentUpsampler } });
  });
});

Deno.test("LTX2Pipeline.generate() gives those of two stages by an upsampler of one and a half times the size", async () => {
  await withFolder({}, async (path) => {
    await withPipeline(async ({ pipeline }) => {
      const call = HALF_MORE.call("ends");
      await check(HALF_MORE, pipeline, call, {}, { previews: 2, onPreview: () => {} });
      const { images: _, task: __, ...request } = requestOf(HALF_MORE, call);
      await assert.rejects(
        pipeline.generate({ ...request, task: "T2V", width: 128 }),
        /128x96 with twoStages: sides must be multiples of 96, from 96/,
      );
    }, { folder: distilled(path, HALF_MORE) });
  });
});

Deno.test("LTX2Pipeline.generate() gives those of two stages of a model that is not distilled, with a LoRA in the second one alone", async () => {
  await withFolder({}, async (path) => {
    for (const golden of [LATER, STAGES]) cpSync(golden.folder, path, { recursive: true });
    const parts = { transformer2: join(LATER.folder, "transformer") };
    await withPipeline(async ({ pipeline }) => {
      const lora = await adapter(pipeline, (key) => key);
      const call = REFINED.call("refined");
      const strength = call.args["strength"] as number;
      const targets = ["transformer_2"] as const;
      const loras = [{ key: "adapter", lora, strength, mode: "dynamic" as const, targets }];
      await check(REFINED, pipeline, call, { loras });
    }, { folder: path, parts });
    await assert.rejects(
      withPipeline(() => Promise.resolve(), { folder: LATER.folder, parts }),
      /second transformer without a latent upsampler/,
    );
  });
});

Deno.test("LTX2Pipeline.generate() gives those of LTX-2, makes no sound where none is wanted, the sound alone, and previews, and refuses what does not fit", async (t) => {
  await withPipeline(async ({ pipeline }) => {
    for (const call of FIRST.calls) await t.step(call.name, () => check(FIRST, pipeline, call));
    const request = requestOf(FIRST, FIRST.call("guided"));
    const previews: number[] = [];
    const silent = await pipeline.generate({ ...request, enableAudio: false }, {
      previews: 2,
      onPreview: (frame, index) => {
        assert.equal(frame.length, request.width * request.height * 3);
        previews.push(index);
      },
    });
    assert.equal(silent.audio, undefined);
    assert.equal(silent.frames.length, request.numFrames);
    assert.deepEqual(previews, [0, 1]);
    const heard = await pipeline.generate(request, { isAudioAlone: true });
    assert.equal(heard.frames.length, 0);
    assert.ok(heard.audio);
    const { info } = pipeline;
    assert.deepEqual([info.givesAudio, info.defaults.numFrames, info.maxFrames], [true, 49, 49]);
    const image = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) };
    const cases: readonly (readonly [Partial<PipelineRequest>, RegExp])[] = [
      [{ width: 32 }, /the width must be a multiple of 32, for example 64/],
      [{ maxSequenceLength: 24 }, /maxSequenceLength of 24: .*a multiple of their number, 16/],
      [{ stgScale: 1 }, /stgScale/],
      [{ task: "I2V" }, /Cannot do I2V with 0 input images/],
      [{ task: "I2V", images: [image, image], numFrames: 1 }, /spread 2 images over 1 frames/],
      [{ imageFrames: [0] }, /imageFrames in T2V/],
      [{ task: "I2V", images: [image], imageFrames: [0, 4] }, /2 imageFrames for 1 images/],
      [{ task: "I2V", images: [image], imageFrames: [9] }, /frame 9: the video has frames 0 to 8/],
      [{ task: "I2V", images: [image, image], imageFrames: [3, 3] }, /two images at frame 3/],
      [{ task: "I2V", images: [image], imageStrengths: [1, 0] }, /2 imageStrengths for 1 images/],
      [{ audio: { sampleRate: 8000, channels: [] } }, /audioGuidanceScale 5 with a sound/],
      [{ controlScale: [1] }, /controlScale of 1 in T2V/],
      [
        { task: "V2V", video: [image.data], controlScale: [0.5, 0.7] },
        /controlScale of 0.5, 0.7: the one control video/,
      ],
      [{ numFrames: 57 }, /Cannot make 57 frames: the model has positions for 49/],
    ];
    for (const [change, message] of cases) {
      await assert.rejects(pipeline.generate({ ...request, ...change }), { message });
    }
  }, { folder: FIRST.folder });
});

Deno.test("checkLtx2Guidance() names blocks that are not there, and guidance that the model does not know", () => {
  const request = requestOf(FIRST, FIRST.call("guided"));
  const config = parseConfig(LTX2_TRANSFORMER_CONFIG, { num_layers: 4 }, "config.json");
  const check = (change: Partial<PipelineRequest>, perturbed_attn = true) =>
    checkLtx2Guidance({ ...request, ...change }, { ...config, perturbed_attn });
  check({ stgScale: 1, stgBlocks: [0, 3] });
  assert.throws(
    () => check({ stgBlocks: [4] }),
    /stgBlocks with block 4: the model has blocks 0 to 3/,
  );
  assert.throws(
    () => check({ audioStgScale: 2 }, false),
    /stgScale of 2: .*perturbed_attn is false/,
  );
});

Deno.test("ltx2Passes() guides nothing that a request does not name where the prompt does not guide", () => {
  const request = requestOf(FIRST, FIRST.call("guided"));
  const { modalityScale: _, audioGuidanceScale: __, audioModalityScale: ___, ...plain } = request;
  const config = parseConfig(LTX2_TRANSFORMER_CONFIG, { perturbed_attn: true }, "config.json");
  const passes = (change: Partial<PipelineRequest>) => ltx2Passes({ ...plain, ...change }, config);
  assert.deepEqual(passes({}), ["prompt", "negative", "perturbed", "isolated"]);
  assert.deepEqual(passes({ guidanceScale: 1 }), ["prompt"]);
  assert.deepEqual(passes({ guidanceScale: 1, audioGuidanceScale: 2 }), ["prompt", "negative"]);
  assert.deepEqual(passes({ stgScale: 0, modalityScale: 1 }), ["prompt", "negative"]);
});

Deno.test({
  name:
    "LTX2Pipeline.generate() makes the same video within any budget that it fits; with DENOISE_SLOW",
  ignore,
  async fn() {
    await checkBudgets(LATER.folder, requestOf(LATER, LATER.call("guided")), [0.7, 0.5]);
    await checkBudgets(LATER.folder, requestOf(KEYFRAMES, KEYFRAMES.call("guided")), [0.7, 0.5]);
    await withFolder({}, async (path) => {
      const folder = distilled(path);
      await checkBudgets(folder, requestOf(STAGES, STAGES.call("ends")), [0.7, 0.5]);
    });
  },
});

Deno.test("ltx2Schedule() takes the levels of distilled models as they are, whatever the scheduler would make of them", () => {
  const scheduler = new FlowMatchEulerScheduler({
    ...{ use_dynamic_shifting: true, time_shift_type: "exponential", shift_terminal: 0.1 },
    ...{ base_image_seq_len: 1024, max_image_seq_len: 4096, base_shift: 0.95, max_shift: 2.05 },
  });
  const sigmas = (steps: number, isDistilled: boolean, own?: number[]) =>
    [...ltx2Schedule(scheduler, 6144, steps, { isDistilled, sigmas: own }).sigmas]
      .map((sigma) => Number(sigma.toFixed(6)));
  assert.deepEqual(sigmas(8, true), [...DISTILLED_SIGMAS, 0]);
  // Another number of steps, or levels that a request has.
  assert.deepEqual(sigmas(2, true), sigmas(2, false));
  assert.notDeepEqual(sigmas(2, true, [1, 0.5]), [1, 0.5, 0]);
});
