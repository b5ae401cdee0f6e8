import { strict as assert } from "node:assert";
import type { Weights } from "../../runtime/mod.ts";
import { PromptCache } from "./prompt_cache.ts";
import type { PipelineControl, PipelineRequest } from "./types.ts";
import { type Attempt, Work } from "./work.ts";

const REQUEST: PipelineRequest = {
  ...{ task: "T2I", prompt: "", negativePrompt: "", width: 2, height: 1, numFrames: 1, seed: 0 },
  ...{ numInferenceSteps: 1, guidanceScale: 1 },
};

function workOf(
  encodeSteps: number,
  told: string[] = [],
  control: PipelineControl = {},
  attempt: Attempt = { frames: 0 },
): Work {
  return new Work({
    request: REQUEST,
    control: {
      onProgress: ({ stage, step, totalSteps }) => told.push(`${stage} ${step}/${totalSteps}`),
      ...control,
    },
    ...{ tokens: [], maxLength: 1, encoded: new PromptCache(), encodeSteps },
    components: { vocoder: { findNonFinite: () => undefined } as unknown as Weights },
    queue: {
      run: () => Promise.reject(new Error("nothing runs")),
      finish: () => Promise.resolve(),
    },
    ...{ attempt, isFirst: true },
    lap: () => {},
  });
}

Deno.test("Work tells that encoding begins, and refuses more steps than were counted", () => {
  const told: string[] = [];
  const work = workOf(2, told);
  work.encodeDone();
  work.encodeDone();
  assert.deepEqual(told, ["encode 0/2", "encode 1/2", "encode 2/2"]);
  assert.throws(() => work.encodeDone(), /step 3 of encoding: there are 2/);
});

Deno.test("Work tells that a phase begins after all of the phase before is told", () => {
  const told: string[] = [];
  const work = workOf(1, told);
  work.progress("denoise", 0, 2);
  work.encodeDone();
  work.progress("denoise", 1, 2);
  work.progress("decode", 0, 1);
  work.progress("denoise", 2, 2);
  work.progress("decode", 1, 1);
  assert.deepEqual(told, [
    ...["encode 0/1", "encode 1/1", "denoise 0/2", "denoise 1/2", "denoise 2/2"],
    ...["decode 0/1", "decode 1/1"],
  ]);
  // What ends without a word, as steps that an earlier attempt took, holds nothing back.
  told.length = 0;
  const short = workOf(1, told);
  short.progress("decode", 0, 1);
  short.progress("decode", 1, 1);
  assert.deepEqual(told, ["encode 0/1", "decode 0/1", "decode 1/1"]);
});

Deno.test("Work.result() refuses a request that gave no latents, or no frames", () => {
  const pixels = new Float32Array(6);
  const work = workOf(1);
  assert.throws(() => work.result(), /gave 0 frames and no latents/);
  work.takeLatents(pixels);
  assert.throws(() => work.result(), /gave 0 frames and its latents/);
  work.takeFrames(pixels);
  assert.equal(work.result().frames.length, 1);
  const other = workOf(1);
  other.takeFrames(pixels);
  assert.throws(() => other.result(), /gave 1 frames and no latents/);
});

Deno.test("Work.takeAudio() gives sound once, before frames, and refuses what is no number", () => {
  const sound = { sampleRate: 8, channels: [new Float32Array([0, 1])] };
  const work = workOf(1);
  work.takeAudio(sound);
  work.takeLatents(new Float32Array(6));
  work.takeFrames(new Float32Array(6));
  assert.deepEqual(work.result().audio, sound);
  assert.throws(() => work.takeAudio(sound), /^Error: Cannot take the sound: 1 frames went before/);
  const heard: unknown[] = [];
  const attempt = { frames: 0 };
  // What is made a second time, as factors were beyond f16, was heard before.
  for (let i = 0; i < 2; i++) {
    const own = workOf(1, [], { onAudio: (audio) => heard.push(audio) }, attempt);
    own.takeAudio(sound);
    own.takeLatents(new Float32Array(6));
    own.takeFrames(new Float32Array(6));
    assert.equal(own.result().audio, undefined);
  }
  assert.deepEqual(heard, [sound]);
  const broken = { ...sound, channels: [new Float32Array([NaN])] };
  const silent = workOf(1);
  assert.throws(
    () => silent.takeAudio(broken),
    /^Error: Cannot finish: the vocoder gave NaN or Inf/,
  );
});

Deno.test("Work.result() needs no frames where sound alone is wanted", () => {
  const work = workOf(1, [], { isAudioAlone: true });
  work.takeLatents(new Float32Array(6));
  assert.deepEqual(work.result().frames, []);
});
