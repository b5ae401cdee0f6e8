/** What a video is made from beside its prompts: a clip, first and last frames, a control. */
import type { DeviceTensor } from "../../../runtime/mod.ts";
import { latentFrameCount } from "../../autoencoders/wan/config.ts";
import { isInpainting } from "../../pipeline/inpainting.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import { CONTINUED_FRAMES, type WanParts, wanSight } from "./config.ts";

export type GivenKind =
  | { readonly kind: "nothing" }
  /** A clip that noise is added to. */
  | { readonly kind: "clip" }
  /** Latent frames that stand in place of the sample's first, and maybe before them the image that the video ends with. */
  | { readonly kind: "first"; readonly frames: number; readonly hasLast: boolean }
  /** An image that is edited by going on from it, and of which a mask keeps a part in what comes after it. */
  | { readonly kind: "masked" }
  /** Frames in channels beside the sample's, and images that an image encoder sees; of an edit, the last frame is kept. */
  | { readonly kind: "channels"; readonly images: number; readonly isEdit: boolean }
  /** A clip and masks that steer, and reference images in latent frames of their own before the sample's. */
  | { readonly kind: "control"; readonly references: number; readonly hasFrames: boolean };

export interface GivenShape {
  /** Latent frames of the video alone. */
  readonly frames: number;
  readonly height: number;
  readonly width: number;
  readonly tileSide: number;
  readonly given: GivenKind;
}

/** What the passes see of it, as inputs of their programs; each [1, tokens, features]. */
type GivenTokens = {
  readonly first?: DeviceTensor | undefined;
  readonly channels?: DeviceTensor | undefined;
  readonly control?: DeviceTensor | undefined;
  /** Weights of what each control block adds, [1, 1, blocks]. */
  readonly scales?: DeviceTensor | undefined;
};

export interface Given {
  readonly tokens: GivenTokens;
  /** Latents of a clip that noise is added to, [frames, height, width, channels]. */
  readonly clip?: DeviceTensor | undefined;
  /** What a mask keeps, of the shape of the sample. */
  readonly kept?: DeviceTensor | undefined;
  /** States of the image encoder, [images, tokens, width]. */
  readonly imageStates?: DeviceTensor | undefined;
  run(work: Work): Promise<void>;
}

export function givenKind(request: PipelineRequest, parts: WanParts, frames: number): GivenKind {
  const { task, images = [], references = [], video = [] } = request;
  const { frames: sight, images: [, mostImages] } = wanSight(parts);
  if (sight === "control") {
    const hasFrames = video.length + images.length > 0;
    return { kind: "control", references: references.length, hasFrames };
  }
  if (task === "V2V") return { kind: "clip" };
  if (task === "T2I" || task === "T2V") return { kind: "nothing" };
  if (sight === "channels") {
    const seesImages = parts.transformer.config.image_dim !== null;
    // Of a clip that goes on, it sees the first frame that is given.
    const seen = task === "F2V" ? 1 : Math.min(images.length, mostImages);
    return { kind: "channels", images: seesImages ? seen : 0, isEdit: task === "TI2I" };
  }
  if (isInpainting(request)) return { kind: "masked" };
  const temporal = parts.vae.config.scale_factor_temporal;
  const wanted = task === "F2V" ? Math.min(video.length, CONTINUED_FRAMES) : 1;
  // At least one latent frame is new, where there are two.
  const first = Math.min(latentFrameCount(wanted, temporal), Math.max(1, frames - 1));
  return { kind: "first", frames: first, hasLast: images.length > 1 };
}

export function isRedrawing(given: GivenKind): boolean {
  return given.kind === "channels" && given.isEdit;
}

export function framesBefore(given: GivenKind): number {
  if (given.kind === "control") return given.references;
  return given.kind === "first" && given.hasLast ? 1 : 0;
}

export function placedFrames(
  { task, images = [], video = [] }: PipelineRequest,
  frames: number,
): Map<number, Uint8Array> {
  if (task === "F2V") {
    const count = Math.min(video.length, CONTINUED_FRAMES, frames);
    return new Map(video.slice(-count).map((frame, i) => [i, frame]));
  }
  const [first, last] = images;
  return new Map([
    ...first ? [[0, first.data] as const] : [],
    ...last ? [[frames - 1, last.data] as const] : [],
  ]);
}
