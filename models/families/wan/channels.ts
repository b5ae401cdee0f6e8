/**
 * Frames as channels beside the sample: a clip, 0 where nothing is given, and a mask of what is given.
 * Source: diffusers `WanImageToVideoPipeline`.
 */
import { concat, f32, type Tensor } from "../../../runtime/mod.ts";
import { traceVideoEncoder } from "../../pipeline/video_coders.ts";
import { wanVideoCodec } from "../../pipeline/wan_coders.ts";
import { cubicResize } from "../../pipeline/cubic_resize.ts";
import { clipVision, toClipPixels } from "../../image_encoders/clip_vision.ts";
import type { Session } from "../../memory/session.ts";
import type { InputImage } from "../../pipeline/types.ts";
import type { WanParts } from "./config.ts";
import { type Given, type GivenShape, placedFrames } from "./given.ts";
import { patchifyClip } from "./patches.ts";

export function traceChannels(
  session: Session,
  { transformer: { config }, vae, imageEncoder: vision }: WanParts,
  shape: GivenShape,
  images: number,
): Given {
  const { frames, height, width } = shape;
  const temporal = vae.config.scale_factor_temporal;
  const pixelFrames = 1 + (frames - 1) * temporal;
  const encoder = traceVideoEncoder(session, wanVideoCodec(vae), shape);
  const channels = encoder.stage.program(
    "channels",
    { latents: encoder.latents, mask: f32(frames, height, width, temporal) },
    ({ latents, mask }) => {
      const both = concat([mask, latents], 3);
      return patchifyClip(config, both);
    },
  );
  const side = vision?.config.image_size ?? 0;
  if (images > 0) session.encodeSteps++;
  const states = vision && images > 0
    ? session.stage("encode", { name: "vision" }).program(
      "vision",
      { pixels: f32(images, side, side, 3) },
      ({ pixels }, graph) => clipVision(graph, vision.config, vision.weights.root, pixels),
    )
    : undefined;
  return {
    tokens: { channels: channels.outputs },
    imageStates: states?.outputs,
    run: async (work) => {
      const placed = placedFrames(work.request, pixelFrames);
      await encoder.run(work, { length: pixelFrames, at: (i) => placed.get(i) });
      const mask = frameMask(placed, { frames, temporal, positions: height * width });
      await work.run([channels.call({ mask })]);
      if (!states) return;
      const pixels = work.request.task === "F2V"
        ? seenBy({ ...work.request, data: placed.get(0)! }, side)
        : visionPixels(work.request.images!.slice(0, images), side);
      await work.run([states.call({ pixels })], { finished: () => work.encodeDone() });
    },
  };
}

/** 1 where a frame is given, [frames, positions, temporal]: the first latent frame stands for the first frame alone. */
export function frameMask(
  placed: ReadonlyMap<number, unknown>,
  { frames, temporal, positions }: {
    readonly frames: number;
    readonly temporal: number;
    readonly positions: number;
  },
): Float32Array {
  const mask = new Float32Array(frames * positions * temporal);
  for (let i = 0; i < mask.length; i++) {
    const latent = Math.floor(i / (positions * temporal));
    const frame = latent === 0 ? 0 : 1 + (latent - 1) * temporal + i % temporal;
    mask[i] = Number(placed.has(frame));
  }
  return mask;
}

function visionPixels(images: readonly InputImage[], side: number): Float32Array {
  const size = side * side * 3;
  const pixels = new Float32Array(images.length * size);
  images.forEach(({ vision }, i) => pixels.set(toClipPixels(vision!), i * size));
  return pixels;
}

export function besideSample(sample: Tensor, channels: Tensor, positions: number): Tensor {
  const [batch, tokens] = sample.shape as [number, number];
  const parts = [sample, channels].map((x) => x.reshape(batch, tokens, positions, -1));
  return concat(parts, 3).reshape(batch, tokens, -1);
}

/** An image as the image encoder sees it, [side, side, 3], brought to its square whatever shape it has. Source: diffusers `clip_visual_encode`. */
export function seenBy(image: InputImage, side: number): Float32Array<ArrayBuffer> {
  return toClipPixels(cubicResize(image, { width: side, height: side }));
}
