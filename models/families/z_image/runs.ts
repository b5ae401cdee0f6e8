/** What the GPU does for a request, stage by stage, and what happens on this side around each run. */
import type { Run } from "../../../runtime/mod.ts";
import { adaptersAffecting } from "../../adapters/affecting.ts";
import { timestepEmbedding } from "../../embeddings.ts";
import type { StageRuns } from "../../memory/stage.ts";
import { toSignedRange } from "../../pixels.ts";
import { qwen3Embeddings } from "../../text_encoders/qwen3.ts";
import { denoiseRuns, pictureRuns, type StepOutputs } from "../picture_runs.ts";
import type { RequestWork, Results } from "../request_work.ts";
import type { ZImageComponents } from "./components.ts";
import { TIMESTEP_FREQUENCIES } from "./modulation.ts";
import { elapsedTime } from "./schedule.ts";
import type { ZImageSession } from "./session.ts";

/** What the runs of a request are made from. */
export interface Work extends RequestWork<ZImageComponents, ZImageSession> {
  /** Standard normal, as `tensors.latents`. */
  readonly noise: Float32Array;
  /** Standard normal, as `tensors.momentNoise`; empty without a given picture. */
  readonly momentNoise: Float32Array;
}

/**
 * Encodes the given picture, and puts its moments where denoising begins. They pass through this side: nothing else may
 * be on its way meanwhile.
 */
export function* pictureStages(work: Work): Generator<StageRuns> {
  if (work.session.encoder) yield { stage: "encode", runs: () => encodeRuns(work) };
}

/** Everything that the GPU does for a request after that, in order. */
export function* requestStages(work: Work, result: Results): Generator<StageRuns> {
  yield* promptStages(work);
  yield { stage: "begin", runs: () => [beginRun(work)] };
  const { previewer } = work.session;
  const outputsOf = (timestep: number) => guidedOutputs(work, elapsedTime(timestep));
  yield { stage: "denoise", runs: () => denoiseRuns(work, outputsOf, previewer) };
  yield { stage: "decode", runs: () => pictureRuns(work, result) };
}

function encodeRuns({ session, request, control, lap }: Work): Iterable<Run> {
  const { tensors, programs } = session;
  const totalSteps = encodeSteps(session);
  const finished = (done: number, moments?: Float32Array) => {
    control.onProgress?.({ stage: "encode", step: done, totalSteps });
    if (!moments) return;
    tensors.moments.write(moments);
    lap("encode");
  };
  const before = () => tensors.pixels.write(toSignedRange(request.pictures![0]!.data));
  return session.encoder!.runs((name) => programs.get(name), finished, before);
}

/** Tiles of a given picture, and the prompts. */
export function encodeSteps({ encoder }: ZImageSession): number {
  return (encoder?.tileCount ?? 0) + 1;
}

/** Modules of the transformer that prompts go through before the first step. */
const CONTEXT_MODULES = /^(cap_embedder|context_refiner)\./;

/** Text encoder and context refiners: what of it is not there yet. */
function* promptStages(work: Work): Generator<StageRuns> {
  const { session, request: { adapters = [] }, tokens, encoded, control, lap } = work;
  const { programs, tensors } = session;
  const { shape: [, rows] } = tensors.embeddings;
  const forText = adaptersAffecting(adapters, ({ target }) => target === "text_encoder");
  const forContext = adaptersAffecting(
    adapters,
    ({ target, module }) => target === "transformer" && CONTEXT_MODULES.test(module),
  );
  const prompts = JSON.stringify([tokens, forText, forContext]);
  if (session.prompts === prompts) return;
  session.prompts = undefined;
  // Programs for other numbers of rows may round otherwise, and a request gives the same whatever came before it.
  const keys = tokens.map((ids) => JSON.stringify([rows, tokens.length, ids, forText]));
  const known = keys.map((key) => encoded.get(key));
  const isKnown = known.every((states) => states !== undefined);
  const textRun = (): Run => ({
    programs: [programs.get("text")],
    stage: "encode",
    before: () => writeTokens(work),
    reads: tensors.states,
    finished: (states) => keys.forEach((key, pass) => encoded.set(key, states[pass]!.slice())),
  });
  if (!isKnown) yield { stage: "text", runs: () => [textRun()] };
  const contextRun = (): Run => ({
    programs: [programs.get("context")],
    stage: "encode",
    before: () => {
      if (isKnown) tensors.states.forEach((resident, pass) => resident.write(known[pass]!));
      tensors.masks.forEach((mask, pass) => {
        const { length } = tokens[pass]!;
        mask.write(Array.from({ length: mask.shape[1]! }, (_, i) => Number(i < length)));
      });
    },
    finished: () => {
      session.prompts = prompts;
      const totalSteps = encodeSteps(session);
      control.onProgress?.({ stage: "encode", step: totalSteps, totalSteps });
      lap("encode");
    },
  });
  yield { stage: "context", runs: () => [contextRun()] };
}

function writeTokens({ components, session: { tensors }, tokens }: Work): void {
  const { textEncoder: { config, weights }, tokenizer } = components;
  const rows = tensors.embeddings.shape[1]!;
  const ids = tokens.flatMap((own) => [
    ...own,
    ...new Array<number>(rows - own.length).fill(tokenizer.padId),
  ]);
  tensors.embeddings.write(qwen3Embeddings(config, weights, ids));
  tensors.lengths.write(tokens.map(({ length }) => length));
}

/** What is the same for all steps. */
function beginRun(work: Work): Run {
  const { components, session, request, schedule, noise, momentNoise, control } = work;
  const { programs, tensors, shape } = session;
  const { t_scale: scale } = components.transformer.config;
  return {
    programs: [programs.get("begin")],
    stage: "denoise",
    before: () => {
      const totalSteps = schedule.timesteps.length;
      control.onProgress?.({ stage: "denoise", step: 0, totalSteps });
      tensors.latents.write(noise);
      const times = Array.from(
        schedule.timesteps,
        (timestep) => Math.fround(elapsedTime(timestep) * scale),
      );
      tensors.timestepEmbeddings.write(timestepEmbedding(times, TIMESTEP_FREQUENCIES));
      if (shape.startsFromPicture) {
        tensors.momentNoise.write(momentNoise);
        tensors.sigma.write([schedule.sigmas[0]!]);
      }
      if (shape.limitsGuidance) {
        tensors.guidance.write([request.guidanceScale, request.guidanceLimit!]);
      }
    },
  };
}

/**
 * The programs of a step before the solver's, and the weights of the outputs in its velocity, which the transformer
 * gives with the other sign.
 *
 * Source: diffusers `ZImagePipeline`, with `cfg_truncation` as the time after which nothing is guided.
 */
function guidedOutputs(
  { session: { shape, tensors }, request }: Work,
  time: number,
): StepOutputs {
  const passes = tensors.outputs.map((_, pass) => `denoise${pass}`);
  const isGuided = passes.length > 1 && time <= (request.guidanceEnd ?? 1);
  const used = isGuided ? passes : passes.slice(0, 1);
  if (shape.limitsGuidance) {
    return { names: [...used, isGuided ? "guide" : "unguided"], weights: [-1] };
  }
  const scale = isGuided ? request.guidanceScale : 0;
  return { names: used, weights: passes.length > 1 ? [-1 - scale, scale] : [-1] };
}
