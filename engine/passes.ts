/** The passes in which a request is made: one, or the two of a hires fix. */
import { cover } from "../media/fit.ts";
import type { HiresUpscaler } from "../models/pipeline/settings.ts";
import { firstPass, hiresSize, hiresUpscaler, redrawsByMask, secondPass } from "./hires.ts";
import type { ProgressPart } from "./reports.ts";
import { drawnSize, resultSize } from "./result_size.ts";
import type { GenerateRequest, ModelInfo, Size } from "./types.ts";

export interface Pass {
  readonly request: GenerateRequest;
  /** The size of its frames, which may be enlarged. */
  readonly size: Size;
  /** The size at which the model draws, where it is another than the request's. */
  readonly drawnAt?: Size | undefined;
  /**
   * What it gives: frames, stretched where their shape is another; frames that are cut then; the middle of frames;
   * latents alone; or sound alone.
   */
  readonly result: "frames" | "covering" | "middle" | "latents" | "audio";
  readonly previews: number;
  /** Its part of the whole progress; all of it by default. */
  readonly part?: ProgressPart;
  /** How the second pass makes an image of what the first one made. */
  readonly from?: { readonly size: Size; readonly upscaler: HiresUpscaler };
}

export function passesOf(request: GenerateRequest, info: ModelInfo, previews: number): Pass[] {
  const drawnAt = request.cropSize ?? drawnSize(request, info);
  const hires = hiresSize(request, info);
  const size = resultSize({ ...request, ...hires });
  if (!hires) {
    const isMiddle = request.cropSize && request.paddingMaskCrop === undefined;
    const result = request.audioAlone ? "audio" : isMiddle ? "middle" : "frames";
    return [{ request, size, drawnAt, result, previews }];
  }
  const upscaler = hiresUpscaler(request, info);
  const [first, second] = [firstPass(request), secondPass(request, info)];
  const [steps, hiresSteps] = [
    first.numInferenceSteps,
    request.hiresSteps ?? first.numInferenceSteps,
  ];
  const work = [steps * first.width * first.height, hiresSteps * hires.width * hires.height];
  const share = work[0]! / (work[0]! + work[1]!);
  const shown = Math.round(previews * share);
  const isLatent = upscaler !== "lanczos" && upscaler !== "model" && !drawnAt;
  return [
    {
      request: first,
      size: hires,
      drawnAt,
      result: isLatent ? "latents" : "covering",
      previews: shown,
      part: { start: 0, share, before: 0, after: hiresSteps },
    },
    {
      request: second,
      size,
      result: "frames",
      previews: previews - shown,
      part: { start: share, share: 1 - share, before: steps, after: 0 },
      from: { size: { width: first.width, height: first.height }, upscaler },
    },
  ];
}

/** A second pass with what the first one made; a model that has strength for masks alone redraws all of it by one. */
export function startingFrom(
  { request, from, ...pass }: Pass,
  { frame, latents }: {
    readonly frame?: Uint8Array | undefined;
    readonly latents?: Float32Array | undefined;
  },
  info: ModelInfo,
): Pass {
  if (!from) return { ...pass, request };
  const { width, height } = request;
  const filter = from.upscaler;
  const given = latents && filter !== "lanczos" && filter !== "model"
    ? { data: new Uint8Array(), latents: { ...from.size, data: latents, filter } }
    : { data: frame! };
  const white = { width, height, data: new Uint8Array(width * height * 3).fill(255) };
  const images = [{ width, height, ...given }];
  const control = request.control?.map((picture) => cover(picture, width, height));
  return {
    ...pass,
    request: {
      ...request,
      images,
      ...(control && { control }),
      ...(redrawsByMask(info) && { mask: [white] }),
    },
  };
}
