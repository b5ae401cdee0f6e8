/** What the GPU does for a request, run by run, and what happens on this side around each. */
import type { Resident, Run } from "../../../runtime/mod.ts";
import { timestepEmbedding } from "../../embeddings.ts";
import type { StageRuns } from "../../memory/stage.ts";
import { checkFirstStep, explainNonFinite, isFinite } from "../../non_finite.ts";
import { toSignedRange, toUnitRange } from "../../pixels.ts";
import { componentsOf } from "../family_components.ts";
import { previewSteps } from "../previews.ts";
import type { RequestWork, Results } from "../request_work.ts";
import type { WanComponents } from "./components.ts";
import { modulationIndices } from "./modulation.ts";
import { contextAdapters, textAdapters, writePadding, writeTokens } from "./prompts.ts";
import type { WanSession } from "./session.ts";

/** Share of the steps that give a picture its shape. */
const SHAPING_SHARE = 0.4;
/** Change of the timestep embedding, summed since the last computed step, below which its velocity is used again. */
const MOST_CHANGE = 0.8;

/** What the runs of a request are made from. */
export type Work = RequestWork<WanComponents, WanSession>;

/**
 * Everything that the GPU does for a request, in order.
 *
 * @param result filled on the way
 * @throws {Error} from a run, when what was read back is no number
 */
export function* requestStages(work: Work, result: Results): Generator<StageRuns> {
  const { session: { shape }, control } = work;
  const totalSteps = shape.source === "clip" ? shape.latentFrames : 1;
  control.onProgress?.({ stage: "encode", step: 0, totalSteps });
  if (shape.source === "picture") yield { stage: "encode", runs: () => [pictureRun(work)] };
  if (shape.source === "clip") yield { stage: "encode", runs: () => clipRuns(work) };
  yield* promptStages(work);
  yield { stage: "denoise", runs: () => denoiseRuns(work) };
  yield { stage: "decode", runs: () => decodeRuns(work, result) };
}

/** The given first frame. */
function pictureRun({ session, request, lap }: Work): Run {
  const { programs, tensors } = session;
  return {
    programs: [programs.get("encode")],
    stage: "encode",
    before: () => tensors.picture.write(toSignedRange(request.pictures![0]!.data)),
    finished: () => lap("encode"),
  };
}

/** The given clip, one latent frame at a time. */
function* clipRuns({ device, components, session, request, control, lap }: Work): Generator<Run> {
  const { programs, tensors, clipHistory } = session;
  const { scale_factor_temporal: temporal } = components.vae.config;
  const totalSteps = session.shape.latentFrames;
  const clip = request.clip!;
  const size = request.width * request.height * 3;
  for (let i = 0; i < totalSteps; i++) {
    const isFirst = i === 0;
    yield {
      programs: [programs.get(isFirst ? "encodeFirst" : "encodeNext")],
      stage: "encode",
      before: () => {
        const windows = [...clipHistory.residents].flatMap((resident) => resident.windows);
        if (isFirst && windows.length > 0) device.clear(windows);
        tensors.frameMask.write(Array.from({ length: totalSteps }, (_, k) => Number(k === i)));
        if (isFirst) return tensors.picture.write(toSignedRange(clip[0]!));
        const pixels = new Float32Array(temporal * size);
        for (let k = 0; k < temporal; k++) {
          const frame = clip[1 + (i - 1) * temporal + k] ?? clip.at(-1)!;
          pixels.set(toSignedRange(frame), k * size);
        }
        tensors.chunk.write(pixels);
      },
      finished: () => {
        control.onProgress?.({ stage: "encode", step: i + 1, totalSteps });
        lap("encode");
      },
    };
  }
}

/** Text encoder, and the keys and values of cross-attention: what of it is not there yet. */
function* promptStages(work: Work): Generator<StageRuns> {
  const { components, session, request: { adapters = [] }, tokens, maxLength, lap } = work;
  const { programs, tensors, shape } = session;
  const { contextTokens } = shape;
  const textKey = textAdapters(adapters);
  const prompts = JSON.stringify([tokens, maxLength, textKey, contextAdapters(adapters)]);
  if (session.prompts === prompts) return;
  session.prompts = undefined;
  // Programs for other numbers of rows may round otherwise, and a request gives the same whatever came before it.
  const keys = tokens.map((ids) => JSON.stringify([contextTokens, tokens.length, ids, textKey]));
  const known = keys.map((key) => work.encoded.get(key));
  const states = known.filter((values) => values !== undefined);
  const isKnown = states.length === known.length;
  const textRun = (): Run => ({
    programs: [programs.get("text")],
    stage: "encode",
    before: () => writeTokens(tensors, components.textEncoder, tokens),
    reads: [tensors.text],
    finished: ([read]) => {
      const size = read!.length / tokens.length;
      keys.forEach((key, i) => work.encoded.set(key, read!.slice(i * size, (i + 1) * size)));
    },
  });
  if (!isKnown) yield { stage: "text", runs: () => [textRun()] };
  const contextRun = (): Run => ({
    programs: [programs.get("context")],
    stage: "encode",
    before: () => {
      if (isKnown) writeAll(tensors.text, states);
      writePadding(tensors, tokens, maxLength);
    },
    finished: () => {
      session.prompts = prompts;
      lap("encode");
    },
  });
  yield { stage: "context", runs: () => [contextRun()] };
}

/** Writes parts one after the other. */
function writeAll(target: Resident, parts: readonly Float32Array[]): void {
  let place = 0;
  for (const part of parts) {
    target.writeBytes(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), place);
    place += part.byteLength;
  }
}

function* denoiseRuns(work: Work): Generator<Run> {
  const { components, session, request, schedule, control, lap } = work;
  const { programs, tensors, shape, solver } = session;
  const { config } = components.transformer;
  const hasFirstFrame = shape.source === "picture";
  const model = tensors.velocities.map((_, pass) => programs.get(`denoise${pass}`));
  const timesteps = [...schedule.timesteps];
  const totalSteps = timesteps.length;
  const { guidanceScale } = request;
  const weights = shape.guidance === "none" ? [1] : [guidanceScale, 1 - guidanceScale];
  const shown = previewSteps(totalSteps, control.previews ?? 0);
  const reused = request.quality === "high" ? reusingSteps(timesteps, config.freq_dim) : [];
  yield {
    programs: [programs.get("begin")],
    stage: "denoise",
    before: () => {
      control.onProgress?.({ stage: "denoise", step: 0, totalSteps });
      const all = hasFirstFrame ? [...timesteps, 0] : timesteps;
      tensors.timestepEmbeddings.write(timestepEmbedding(all, config.freq_dim));
    },
  };
  for (let i = 0; i < totalSteps; i++) {
    const step = solver.step(i, programs, weights);
    const rows = hasFirstFrame ? [totalSteps, i] : [i];
    const preview = shown.indexOf(i);
    const isShown = preview !== -1;
    const isFirst = i === 0;
    yield {
      programs: [
        ...(reused.includes(i) ? [] : model),
        ...(isShown ? [programs.get("preview")] : []),
        ...step.programs,
      ],
      stage: "denoise",
      before: () => {
        tensors.modulationIndices.write(modulationIndices(config, rows));
        step.before();
        if (!isShown) return;
        const sigma = schedule.sigmas[i]!;
        tensors.previewWeights.write([1, ...weights.map((weight) => -sigma * weight)]);
      },
      reads: [
        ...(isFirst ? [tensors.sample] : []),
        ...(isShown ? [tensors.firstPixels] : []),
      ],
      finished: (contents) => {
        if (isFirst) {
          const parts = Object.values(componentsOf(components));
          checkFirstStep(contents[0]!, shape.operands, parts, guidanceScale);
        }
        if (isShown) control.onPreview?.(toUnitRange(contents.at(-1)!), preview);
        control.onProgress?.({ stage: "denoise", step: i + 1, totalSteps });
        if (i + 1 === totalSteps) lap("denoise");
      },
    };
  }
}

/**
 * The steps that `quality: high` takes with the velocity of the last step that was computed: those whose timestep
 * embedding has changed little since then. The first ones, which give the picture its shape, and the last one are
 * always computed; so is every step of models that were made for a few.
 *
 * Source: "Timestep Embedding Tells: It's Time to Cache for Video Diffusion Model" (TeaCache, Liu et al. 2024), with
 * the sinusoidal embedding in place of what the model makes of it, so that all is known before the first step.
 *
 * @param timesteps of all steps
 * @param dim of their embeddings
 * @returns indices of steps, in order
 */
export function reusingSteps(timesteps: readonly number[], dim: number): number[] {
  const embeddings = timestepEmbedding(timesteps, dim);
  const reused: number[] = [];
  let change = 0;
  for (let i = Math.ceil(SHAPING_SHARE * timesteps.length); i < timesteps.length - 1; i++) {
    change += relativeChange(embeddings, i, dim);
    if (i > 0 && change < MOST_CHANGE) reused.push(i);
    else change = 0;
  }
  return reused;
}

/** Mean difference of row `i` to the one before, as a share of that one's mean magnitude. */
function relativeChange(rows: Float32Array, i: number, dim: number): number {
  let [difference, magnitude] = [0, 0];
  for (let j = i * dim; j < (i + 1) * dim; j++) {
    difference += Math.abs(rows[j]! - rows[j - dim]!);
    magnitude += Math.abs(rows[j - dim]!);
  }
  return difference / magnitude;
}

/** The latents as the caller gets them, and then one latent frame at a time. */
function* decodeRuns(work: Work, result: Results): Generator<Run> {
  const { device, components, session, request, control, lap } = work;
  const { programs, tensors, history, shape } = session;
  const { vae } = components;
  const { guidanceScale, task } = request;
  const totalSteps = shape.latentFrames;
  for (let i = 0; i < totalSteps; i++) {
    const isFirst = i === 0;
    const isLast = i + 1 === totalSteps;
    const pixels = isFirst ? tensors.firstPixels : tensors.nextPixels;
    yield {
      programs: isFirst
        ? [programs.get("finish"), programs.get("decodeFirst")]
        : [programs.get("decodeNext")],
      stage: "decode",
      before: () => {
        if (!isFirst) return tensors.frameIndex.write([i]);
        const windows = [...history.residents].flatMap((resident) => resident.windows);
        if (windows.length > 0) device.clear(windows);
        control.onProgress?.({ stage: "decode", step: 0, totalSteps });
      },
      reads: isFirst ? [tensors.latents, pixels] : [pixels],
      finished: (contents) => {
        if (isFirst) {
          result.latents = contents[0]!;
          if (!isFinite(result.latents)) {
            const parts = Object.values(componentsOf(components));
            throw explainNonFinite("the transformer", parts, guidanceScale);
          }
        }
        const decoded = contents.at(-1)!;
        if (!isFinite(decoded)) {
          throw explainNonFinite("the autoencoder", [vae.weights], guidanceScale);
        }
        const frames = toFrames(decoded, pixels.shape[1]!);
        const kept = task !== "TI2I" ? frames : isLast ? frames.slice(-1) : [];
        for (const frame of kept) {
          if (control.onFrame) control.onFrame(frame);
          else result.frames.push(frame);
        }
        control.onProgress?.({ stage: "decode", step: i + 1, totalSteps });
        if (isLast) lap("decode");
      },
    };
  }
}

/** Decoded pixels as pictures. */
function toFrames(decoded: Float32Array, count: number): Float32Array[] {
  const size = decoded.length / count;
  return Array.from(
    { length: count },
    (_, i) => toUnitRange(decoded.subarray(i * size, (i + 1) * size)),
  );
}
