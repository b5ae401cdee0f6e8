/** The programs that encode the character's image, the driving video, and what a clip goes on from. */
import {
  concat,
  type DeviceTensor,
  f32,
  type Program,
  type Tensor,
} from "../../../../runtime/mod.ts";
import { WanVideoEncoder } from "../../../pipeline/wan_coders.ts";
import { clipVision } from "../../../image_encoders/clip_vision.ts";
import type { Session } from "../../../memory/session.ts";
import type { Pass } from "../../../pipeline/passes.ts";
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

export class GivenEncoders {
  /** What the image encoder gives for the character and for the driving video, [2, tokens, width]. */
  readonly seen: DeviceTensor;
  /** The driving video with all that it has beside it, [1, tokens, features]. */
  readonly driving: DeviceTensor;
  /** What the tokens of a clip have beside the sample, those of the character's image first. */
  readonly channels: DeviceTensor;
  readonly #shape: ClipShape;
  readonly #temporal: number;
  readonly #scale: number;
  readonly #side: number;
  readonly #image: WanVideoEncoder;
  readonly #video: WanVideoEncoder;
  readonly #vision: Program<{ readonly pixels: Float32Array }>;
  readonly #drivingTokens: Pass;
  readonly #channelTokens: Program<{ readonly mask: Float32Array }>;

  constructor(
    session: Session,
    { transformer: { config }, vae, imageEncoder: vision }: AnimateParts,
    shape: ClipShape,
  ) {
    const { frames, height, width } = shape;
    const { scale_factor_temporal: temporal, scale_factor_spatial: scale } = vae.config;
    this.#shape = shape;
    this.#temporal = temporal;
    this.#scale = scale;
    this.#side = vision.config.image_size;
    const side = this.#side;
    this.#image = new WanVideoEncoder(session, vae, { ...shape, frames: 1 }, { name: "character" });
    this.#video = new WanVideoEncoder(session, vae, shape, { runs: 2 * shape.clips });
    const { stage, latents } = this.#video;
    const driving = stage.program("driving", { latents }, ({ latents }) => {
      const mask = given(latents, temporal);
      return patchifyClip(config, concat([latents, mask, latents], 3));
    });
    const channels = stage.program(
      "channels",
      { latents, image: this.#image.latents, mask: f32(frames, height, width, temporal) },
      ({ latents, image, mask }) =>
        patchifyClip(
          config,
          concat([
            concat([given(image, temporal), image], 3),
            concat([mask, latents], 3),
          ], 0),
        ),
    );
    session.encodeSteps++;
    const seen = session.stage("encode", { name: "vision" }).program(
      "vision",
      { pixels: f32(2, side, side, 3) },
      ({ pixels }, graph) => clipVision(graph, vision.config, vision.weights.root, pixels),
    );
    this.seen = seen.outputs;
    this.driving = driving.outputs;
    this.channels = channels.outputs;
    this.#vision = seen;
    this.#drivingTokens = driving;
    this.#channelTokens = channels;
  }

  async run(work: Work): Promise<void> {
    const { images, video, width, height } = work.request;
    const [image, first] = [images![0]!.data, video![0]!];
    await this.#image.run(work, [image]);
    const side = this.#side;
    const pixels = new Float32Array(2 * side * side * 3);
    pixels.set(seenBy({ width, height, data: image }, side));
    pixels.set(seenBy({ width, height, data: first }, side), pixels.length / 2);
    await work.run([this.#vision.call({ pixels })], { finished: () => work.encodeDone() });
  }

  /** Encodes what a clip follows, and the last frame of the clip before, in [-1, 1], from which it goes on. */
  async runClip(work: Work, clip: number, last: Float32Array | undefined): Promise<void> {
    const { clipLength, frames, height, width } = this.#shape;
    const { video, numFrames } = work.request;
    const start = clipStart(clip, clipLength);
    const frame = (i: number) => video![mirrored(start + i, Math.min(numFrames, video!.length))];
    await this.#video.run(work, { length: clipLength, at: frame });
    await work.run([this.#drivingTokens.call({})]);
    const before = new Map(last ? [[0, last]] : []);
    await this.#video.run(work, { length: clipLength, at: (i) => before.get(i) });
    const positions = height * width;
    const mask = frameMask(before, { frames, temporal: this.#temporal, positions });
    await work.run([this.#channelTokens.call({ mask })]);
  }

  get frameSize(): number {
    return this.#shape.height * this.#shape.width * this.#scale ** 2 * 3;
  }

  cutter(
    clip: number,
    numFrames: number,
    told: (last: Float32Array) => void,
  ): (pixels: Float32Array) => Float32Array {
    const { clipLength } = this.#shape;
    const size = this.frameSize;
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
  }
}

function given(latents: Tensor, temporal: number): Tensor {
  const [frames, height, width] = latents.shape as [number, number, number];
  const values = () => new Float32Array(frames * height * width * temporal).fill(1);
  return latents.graph.constant("given", [frames, height, width, temporal], "f32", values);
}
