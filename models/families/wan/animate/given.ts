/** The programs that encode the character's image, the driving video, and what a clip goes on from. */
import { concat, type DeviceTensor, f32, type Tensor } from "../../../../runtime/mod.ts";
import { traceVideoEncoder } from "../../../pipeline/video_coders.ts";
import { wanVideoCodec } from "../../../pipeline/wan_coders.ts";
import { clipVision } from "../../../image_encoders/clip_vision.ts";
import type { Session } from "../../../memory/session.ts";
import type { Work } from "../../../pipeline/work.ts";
import { frameMask, seenBy } from "../channels.ts";
import { patchifyClip } from "../patches.ts";
import { type AnimateParts, clipStart, mirrored, SHARED_FRAMES } from "./config.ts";

export interface ClipShape {
  /** Latent frames without that of the character's image. */
  readonly frames: number;
  readonly height: number;
  readonly width: number;
  readonly tileSide: number;
  readonly clips: number;
  /** Frames of a clip, in pixels. */
  readonly clipLength: number;
}

export interface GivenEncoders {
  /** What the image encoder gives for the character and for the driving video, [2, tokens, width]. */
  readonly seen: DeviceTensor;
  /** The driving video with all that it has beside it, [1, tokens, features]. */
  readonly driving: DeviceTensor;
  /** What the tokens of a clip have beside the sample, those of the character's image first. */
  readonly channels: DeviceTensor;
  run(work: Work): Promise<void>;
  /** Encodes what a clip follows, and the last frame of the clip before, in [-1, 1], from which it goes on. */
  runClip(work: Work, clip: number, last: Float32Array | undefined): Promise<void>;
  /** Gives the decoded frames that belong to the result; `told` gets the last one, in [-1, 1]. */
  cutter(
    clip: number,
    numFrames: number,
    told: (last: Float32Array) => void,
  ): (pixels: Float32Array) => Float32Array;
}

export function traceGiven(
  session: Session,
  { transformer: { config }, vae, imageEncoder: vision }: AnimateParts,
  shape: ClipShape,
): GivenEncoders {
  const { frames, height, width, clipLength } = shape;
  const { scale_factor_temporal: temporal, scale_factor_spatial: scale } = vae.config;
  const side = vision.config.image_size;
  const character = { name: "character" };
  const imageEncoder = traceVideoEncoder(
    session,
    wanVideoCodec(vae),
    { ...shape, frames: 1 },
    character,
  );
  const encoder = traceVideoEncoder(session, wanVideoCodec(vae), shape, { runs: 2 * shape.clips });
  const { stage, latents } = encoder;
  const driving = stage.program("driving", { latents }, ({ latents }) => {
    const mask = given(latents, temporal);
    return patchifyClip(config, concat([latents, mask, latents], 3));
  });
  const channels = stage.program(
    "channels",
    { latents, image: imageEncoder.latents, mask: f32(frames, height, width, temporal) },
    ({ latents, image, mask }) => {
      const first = concat([given(image, temporal), image], 3);
      return patchifyClip(config, concat([first, concat([mask, latents], 3)], 0));
    },
  );
  session.encodeSteps++;
  const seen = session.stage("encode", { name: "vision" }).program(
    "vision",
    { pixels: f32(2, side, side, 3) },
    ({ pixels }, graph) => clipVision(graph, vision.config, vision.weights.root, pixels),
  );
  return {
    seen: seen.outputs,
    driving: driving.outputs,
    channels: channels.outputs,
    async run(work) {
      const { images, video, width, height } = work.request;
      const [image, first] = [images![0]!.data, video![0]!];
      await imageEncoder.run(work, [image]);
      const pixels = new Float32Array(2 * side * side * 3);
      pixels.set(seenBy({ width, height, data: image }, side));
      pixels.set(seenBy({ width, height, data: first }, side), pixels.length / 2);
      await work.run([seen.call({ pixels })], { finished: () => work.encodeDone() });
    },
    async runClip(work, clip, last) {
      const { video, numFrames } = work.request;
      const start = clipStart(clip, clipLength);
      const frame = (i: number) => video![mirrored(start + i, Math.min(numFrames, video!.length))];
      await encoder.run(work, { length: clipLength, at: frame });
      await work.run([driving.call({})]);
      const before = new Map(last ? [[0, last]] : []);
      await encoder.run(work, { length: clipLength, at: (i) => before.get(i) });
      const mask = frameMask(before, { frames, temporal, positions: height * width });
      await work.run([channels.call({ mask })]);
    },
    cutter(clip, numFrames, told) {
      const size = height * width * scale ** 2 * 3;
      let place = 0;
      return (pixels) => {
        const count = pixels.length / size;
        const skipped = clip === 0 ? 0 : Math.max(0, SHARED_FRAMES - place);
        const left = numFrames - clipStart(clip, clipLength) - place;
        told(pixels.slice(-size).map((value) => Math.min(1, Math.max(-1, value))));
        place += count;
        const end = Math.max(skipped, Math.min(count, left));
        return pixels.subarray(Math.min(skipped, count) * size, end * size);
      };
    },
  };
}

function given(latents: Tensor, temporal: number): Tensor {
  const [frames, height, width] = latents.shape as [number, number, number];
  const values = () => new Float32Array(frames * height * width * temporal).fill(1);
  return latents.graph.constant("given", [frames, height, width, temporal], "f32", values);
}
