/** What the GPU does for a request, stage by stage, and what happens on this side around each run. */
import { elementCount, type Run } from "../../../runtime/mod.ts";
import { adaptersAffecting } from "../../adapters/affecting.ts";
import { timestepEmbedding } from "../../embeddings.ts";
import type { StageRuns } from "../../memory/stage.ts";
import { toSignedRange } from "../../pixels.ts";
import { qwen3Embeddings } from "../../text_encoders/qwen3.ts";
import { denoiseRuns, pictureRuns, type StepOutputs } from "../picture_runs.ts";
import type { RequestWork, Results } from "../request_work.ts";
import type { Flux2Components } from "./components.ts";
import type { Flux2Session } from "./session.ts";
import { distinctGrids, indexOfGrid } from "./session_tensors.ts";

/** What the runs of a request are made from. */
export interface Work extends RequestWork<Flux2Components, Flux2Session> {
  /** Standard normal, as `tensors.latents`. */
  readonly noise: Float32Array;
}

/**
 * Encodes the given pictures.
 *
 * @param moments filled with what the encoder gives for each, in order, when all has run
 */
export function* givenStages(work: Work, moments: Float32Array[]): Generator<StageRuns> {
  if (work.session.encoders.length === 0) return;
  yield { stage: "encode", runs: () => givenRuns(work, moments) };
}

/**
 * Everything else that the GPU does for a request, in order.
 *
 * @param moments of the given pictures
 * @param result filled on the way
 * @throws {Error} from a run, when what was read back is no number
 */
export function* requestStages(
  work: Work,
  moments: readonly Float32Array[],
  result: Results,
): Generator<StageRuns> {
  if (moments.length > 0) yield { stage: "encode", runs: () => [referenceRun(work, moments)] };
  yield* textStages(work);
  yield { stage: "begin", runs: () => [beginRun(work)] };
  const { decoder } = work.session;
  yield { stage: "denoise", runs: () => denoiseRuns(work, () => guidedOutputs(work), decoder) };
  yield { stage: "decode", runs: () => pictureRuns(work, result) };
}

function* givenRuns({ session, request, control }: Work, moments: Float32Array[]): Generator<Run> {
  const { shape, tensors, programs, encoders } = session;
  const { pictures = [] } = request;
  const grids = distinctGrids(shape);
  for (const [i, picture] of pictures.entries()) {
    const kind = indexOfGrid(grids, shape.references[i]!);
    yield* encoders[kind]!.runs(
      (name) => programs.get(name),
      (_, result) => {
        if (!result) return;
        moments[i] = result;
        control.onProgress?.({ stage: "encode", step: i + 1, totalSteps: pictures.length + 1 });
      },
      () => tensors.pixels[kind]!.write(toSignedRange(picture.data)),
    );
  }
}

/** Makes tokens of the given pictures' moments. */
function referenceRun({ session, lap }: Work, moments: readonly Float32Array[]): Run {
  const { tensors, programs } = session;
  return {
    programs: [programs.get("references")],
    stage: "encode",
    before: () => tensors.moments.forEach((resident, i) => resident.write(moments[i]!)),
    finished: () => lap("encode"),
  };
}

/** States of the prompts: from the text encoder, unless they are known. */
function* textStages(work: Work): Generator<StageRuns> {
  const { session, tokens, encoded, request } = work;
  // Programs for other numbers of rows may round otherwise, and a request gives the same whatever came before it.
  const { textTokens, passes } = session.shape;
  const adapters = adaptersAffecting(
    request.adapters ?? [],
    ({ target }) => target === "text_encoder",
  );
  const keys = tokens.map((ids) => JSON.stringify([textTokens, passes, adapters, ids]));
  const prompts = keys.join();
  if (session.prompts === prompts) return;
  session.prompts = undefined;
  const known = keys.map((key) => encoded.get(key));
  if (known.every((states) => states !== undefined)) {
    writeStates(session, known);
    session.prompts = prompts;
    return;
  }
  yield {
    stage: "text",
    runs: () => [
      textRun(work, (states) => {
        const size = states.length / keys.length;
        keys.forEach((key, i) => encoded.set(key, states.slice(i * size, (i + 1) * size)));
        session.prompts = prompts;
      }),
    ],
  };
}

function writeStates({ tensors }: Flux2Session, parts: readonly Float32Array[]): void {
  const all = new Float32Array(elementCount(tensors.states.shape));
  parts.forEach((part, i) => all.set(part, i * part.length));
  tensors.states.write(all);
}

function textRun(
  { components, session, tokens, control, lap }: Work,
  finished: (states: Float32Array) => void,
): Run {
  const { textEncoder: { config, weights }, tokenizer } = components;
  const { tensors, shape, programs } = session;
  return {
    programs: [programs.get("text")],
    stage: "encode",
    before: () => {
      const pads = (ids: readonly number[]) =>
        new Array<number>(shape.textTokens - ids.length).fill(tokenizer.padId);
      const ids = tokens.flatMap((own) => [...own, ...pads(own)]);
      tensors.embeddings.write(qwen3Embeddings(config, weights, ids));
      tensors.lengths.write(tokens.map(({ length }) => length));
    },
    reads: [tensors.states],
    finished: ([states]) => {
      finished(states!);
      const totalSteps = shape.references.length + 1;
      control.onProgress?.({ stage: "encode", step: totalSteps, totalSteps });
      lap("encode");
    },
  };
}

/** Noise, prompts and timesteps as the transformer takes them. */
function beginRun({ components, session, schedule, noise, control }: Work): Run {
  const { programs, tensors } = session;
  const { timestep_guidance_channels: channels } = components.transformer.config;
  const totalSteps = schedule.timesteps.length;
  return {
    programs: [programs.get("begin")],
    stage: "denoise",
    before: () => {
      control.onProgress?.({ stage: "denoise", step: 0, totalSteps });
      tensors.latents.write(noise);
      const timesteps = Array.from(schedule.timesteps, modelTimestep);
      tensors.timestepEmbeddings.write(timestepEmbedding(timesteps, channels));
    },
  };
}

/** The programs of a step before the solver's, and the weights of the velocities. */
function guidedOutputs({ session: { shape, tensors }, request }: Work): StepOutputs {
  const names = tensors.velocities.map((_, pass) => `denoise${pass}`);
  const { guidanceScale } = request;
  return { names, weights: shape.passes === 1 ? [1] : [guidanceScale, 1 - guidanceScale] };
}

/** The timestep that the transformer embeds: the scheduler's, there and back through [0, 1] in f32. */
function modelTimestep(timestep: number): number {
  return Math.fround(Math.fround(timestep / 1000) * 1000);
}
