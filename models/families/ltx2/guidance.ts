/**
 * Guidance of LTX-2, between estimates of the results: by the prompt, by what some blocks make without attention, and by what video
 * and sound are without each other; each of the two has scales of its own.
 * Source: diffusers `LTX2Pipeline`; Hyung et al. 2024, "Spatiotemporal Skip Guidance"; Lin et al. 2023 for the rescaling.
 */
import { combine, concat, elementwise, slice, type Tensor } from "../../../runtime/mod.ts";
import type { DeviceTensor } from "../../../runtime/mod.ts";
import { squaredSpread } from "../../blocks/sums.ts";
import type { CombinedGuidance, Guidance } from "../../pipeline/guidance.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Ltx2TransformerConfig } from "./config.ts";
import { type GivenPlace, type GivenTokens, heldVelocity, withGiven } from "./given.ts";
import { SettingError } from "../../setting_error.ts";

/** What a pass of the transformer is beside that of the prompt. */
export type PassKind = "prompt" | "negative" | "perturbed" | "isolated";

interface Scales {
  readonly guidance: number;
  readonly stg: number;
  readonly modality: number;
  readonly rescale: number;
}

const DEFAULT_AUDIO_GUIDANCE = 7;
const DEFAULT_MODALITY = 3;
export const DEFAULT_RESCALE = 0.7;
const DEFAULT_BLOCKS = [28];
/** Settings of the guidance of a sound that is made. */
const AUDIO_SCALES = [
  ...["audioGuidanceScale", "audioStgScale", "audioModalityScale"] as const,
  "audioGuidanceRescale",
] as const;

/** Scales of video and sound. Where nothing is guided by the prompt, nothing else guides unless a request says so. */
function scalesOf(
  request: PipelineRequest,
  { perturbed_attn }: Pick<Ltx2TransformerConfig, "perturbed_attn">,
): { readonly video: Scales; readonly audio: Scales } {
  const { guidanceScale: guidance, guidanceRescale: rescale = DEFAULT_RESCALE } = request;
  const isGuided = guidance > 1;
  const { stgScale: stg = isGuided && perturbed_attn ? 1 : 0 } = request;
  const { modalityScale: modality = isGuided ? DEFAULT_MODALITY : 1 } = request;
  const video = { guidance, stg, modality, rescale };
  // A sound that is given needs none.
  if (request.audio) return { video, audio: { guidance: 1, stg: 0, modality: 1, rescale: 0 } };
  return {
    video,
    audio: {
      guidance: request.audioGuidanceScale ?? (isGuided ? DEFAULT_AUDIO_GUIDANCE : guidance),
      stg: request.audioStgScale ?? stg,
      modality: request.audioModalityScale ?? modality,
      rescale: request.audioGuidanceRescale ?? rescale,
    },
  };
}

/** Whether the negative prompt counts. */
export function isPromptGuided(request: PipelineRequest): boolean {
  const { video, audio } = scalesOf(request, { perturbed_attn: false });
  return video.guidance > 1 || audio.guidance > 1;
}

export function ltx2Passes(request: PipelineRequest, config: Ltx2TransformerConfig): PassKind[] {
  const { video, audio } = scalesOf(request, config);
  return [
    "prompt",
    ...isPromptGuided(request) ? ["negative" as const] : [],
    ...video.stg > 0 || audio.stg > 0 ? ["perturbed" as const] : [],
    ...video.modality > 1 || audio.modality > 1 ? ["isolated" as const] : [],
  ];
}

export function stgBlocks({ stgBlocks = DEFAULT_BLOCKS }: PipelineRequest): readonly number[] {
  return stgBlocks;
}

export function checkLtx2Guidance(
  request: PipelineRequest,
  { perturbed_attn, num_layers }: Ltx2TransformerConfig,
): void {
  const { stgScale = 0, audioStgScale = 0, stgBlocks: blocks = [] } = request;
  const idle = request.audio && AUDIO_SCALES.find((name) => request[name] !== undefined);
  if (idle) {
    throw new SettingError(
      idle,
      `Cannot use ${idle} ${
        request[idle]
      } with a sound that is given: nothing of it is made; omit it`,
    );
  }
  const asked = Math.max(stgScale, audioStgScale);
  if (asked > 0 && !perturbed_attn) {
    throw new SettingError(
      stgScale > 0 ? "stgScale" : "audioStgScale",
      `Cannot use a stgScale of ${asked}: the model has no spatio-temporal guidance (perturbed_attn is false); omit it`,
    );
  }
  const missing = blocks.find((block) => block >= num_layers);
  if (missing === undefined) return;
  throw new SettingError(
    "stgBlocks",
    `Cannot use stgBlocks with block ${missing}: the model has blocks 0 to ${num_layers - 1}`,
  );
}

export function ltx2Guidance(
  request: PipelineRequest,
  config: Ltx2TransformerConfig,
  passes: readonly PassKind[],
  sigmas: ArrayLike<number>,
): Guidance {
  if (passes.length === 1) return { weights: () => [1] };
  const { video, audio } = scalesOf(request, config);
  const numbers = [video, audio].flatMap((scales) => [
    scales.rescale,
    ...weightsOf(scales, passes),
  ]);
  return {
    weights: () => passes.map(() => 1),
    combined: { settings: (i) => [sigmas[i]!, ...numbers], weight: () => 1 },
  };
}

/** Weights of the velocities of the passes, whose sum is 1. */
function weightsOf({ guidance, stg, modality }: Scales, passes: readonly PassKind[]): number[] {
  const less = { prompt: 0, negative: guidance - 1, perturbed: stg, isolated: modality - 1 };
  const own = 1 + passes.reduce((sum, kind) => sum + less[kind], 0);
  return passes.map((kind) => (kind === "prompt" ? own : -less[kind]));
}

/** Of tokens of the video and of images, then of the sound; `given` stand for some of the sample's. */
export function ltx2CombinedGuidance(
  passes: number,
  soundStart: number,
  places: readonly GivenPlace[],
  tokens: GivenTokens<DeviceTensor>,
): CombinedGuidance {
  const own = 1 + passes;
  const inputs = Object.entries(tokens).flatMap(([kind, x]) => x ? [[kind, x] as const] : []);
  return {
    settings: 1 + 2 * own,
    inputs: Object.fromEntries(inputs),
    trace(outputs, settings, given) {
      const tokens = given as GivenTokens<Tensor>;
      const sample = withGiven(given.sample, tokens, places);
      const sigma = slice(settings, 2, 0, 1);
      const ranges = [[0, soundStart], [soundStart, sample.dim(1)]] as const;
      const parts = ranges.map(([start, end], i) => {
        const at = 1 + i * own;
        const part = (x: Tensor) => slice(x, 1, start, end);
        const x = part(sample);
        const velocity = combine(outputs.map(part), settings, at + 1);
        const guided = estimate(x, velocity, sigma);
        const plain = estimate(x, part(outputs[0]!), sigma);
        return elementwise("(x - y * (r * sqrt(p / max(q, least)) + 1.0 - r)) / s", {
          x,
          y: guided,
          r: slice(settings, 2, at, at + 1),
          p: squaredSpread(plain),
          q: squaredSpread(guided),
          s: sigma,
        }, { scalars: { least: 1e-30 }, name: "guided" });
      });
      return heldVelocity(concat(parts, 1), sample, tokens, places, sigma);
    },
  };
}

function estimate(x: Tensor, velocity: Tensor, sigma: Tensor): Tensor {
  return elementwise("x - s * v", { x, v: velocity, s: sigma });
}
