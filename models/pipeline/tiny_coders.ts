/** The programs of tiny decoders. */
import { clearing, type DeviceTensor, gather, type Program, u32 } from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import type { Component } from "./components.ts";
import type { StageQueue } from "../memory/session_runner.ts";
import type { DecodeOptions, Decoder, ImageCodec } from "../autoencoders/tiled_coder.ts";
import type { VideoSize } from "./wan_coders.ts";
import {
  type TinyDecoderConfig,
  tinySpatialScale,
  tinyTemporalScale,
} from "../autoencoders/tiny/config.ts";
import { tinyImageDecoder, tinyVideoFrames } from "../autoencoders/tiny/decoder.ts";

export type TinyDecoder = Component<TinyDecoderConfig>;

export function tinyCodec(
  { config, weights }: TinyDecoder,
): Omit<ImageCodec, "channels" | "encode"> {
  return {
    scale: tinySpatialScale(config),
    latentChannels: config.latent_channels,
    decode: (graph, latents) => tinyImageDecoder(graph, config, weights.root, latents),
  };
}

/** Traces the way from normalised latents, [frames, height, width, channels], to frames. */
export function tinyVideoDecoder(
  tiny: TinyDecoder,
  size: Omit<VideoSize, "tileSide">,
): (stage: Stage, name: string) => TinyVideoDecoder {
  return (stage, name) => new TinyVideoDecoder(stage, tiny, size, name);
}

class TinyVideoDecoder implements Decoder {
  readonly input: DeviceTensor;
  readonly count: number;
  readonly #memory: DeviceTensor[] = [];
  readonly #program: Program<{ readonly frame: readonly number[] }, DeviceTensor>;
  readonly #temporal: number;

  constructor(
    stage: Stage,
    { config, weights }: TinyDecoder,
    size: Omit<VideoSize, "tileSide">,
    name: string,
  ) {
    const { frames, height, width } = size;
    const channels = config.latent_channels;
    this.input = stage.tensor(`${name} input`, [frames, height, width, channels]);
    this.count = frames;
    this.#temporal = tinyTemporalScale(config);
    stage.repeats = Math.max(stage.repeats, frames);
    this.#program = stage.program(
      `${name} frame`,
      { latents: this.input, frame: u32(1) },
      ({ latents, frame }, graph) => {
        const latent = gather(latents.reshape(frames, -1), frame);
        const shape = [1, height, width, channels];
        return tinyVideoFrames(
          graph,
          config,
          weights.root,
          latent.reshape(...shape),
          (...memory) => {
            const resident = stage.tensor(...memory);
            this.#memory.push(resident);
            return resident;
          },
        );
      },
    );
    stage.willRead(this.#program.outputs);
  }

  get firstResult(): DeviceTensor {
    return this.#program.outputs;
  }

  async run(
    work: Pick<StageQueue, "run">,
    { first = [], reads = [], begin, received }: DecodeOptions,
  ): Promise<void> {
    const { outputs } = this.#program;
    const [, height, width, channels] = outputs.shape as [number, number, number, number];
    // The first latent frame is one frame of the video: those that would be before it are dropped.
    const dropped = (this.#temporal - 1) * height * width * channels;
    for (let i = 0; i < this.count; i++) {
      const call = this.#program.call({ frame: [i] });
      const before = [clearing(this.#memory), { write: () => begin?.() }, ...first];
      await work.run(i === 0 ? [...before, call] : [call], {
        reads: [...i === 0 ? reads : [], outputs],
        finished: (contents) => {
          const pixels = contents.at(-1)!;
          received(i + 1, i === 0 ? pixels.subarray(dropped) : pixels, contents.slice(0, -1));
        },
      });
    }
  }
}
