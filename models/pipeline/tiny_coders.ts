/** The programs of tiny decoders. */
import { clearing, type DeviceTensor, gather, u32 } from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import type { Component } from "./components.ts";
import type { Decoder, ImageCodec } from "../autoencoders/tiled_coder.ts";
import type { VideoSize } from "./video_coders.ts";
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

/** From normalised latents, [frames, height, width, channels], to frames, one latent frame at a time. */
export function tinyVideoDecoder(
  { config, weights }: TinyDecoder,
  { frames, height, width }: Omit<VideoSize, "tileSide">,
): (stage: Stage, name: string) => Decoder {
  return (stage, name) => {
    const channels = config.latent_channels;
    const input = stage.tensor(`${name} input`, [frames, height, width, channels]);
    const resident: DeviceTensor[] = [];
    stage.repeats = Math.max(stage.repeats, frames);
    const program = stage.program(
      `${name} frame`,
      { latents: input, frame: u32(1) },
      ({ latents, frame }, graph) => {
        const latent = gather(latents.reshape(frames, -1), frame)
          .reshape(1, height, width, channels);
        return tinyVideoFrames(graph, config, weights.root, latent, (...memory) => {
          resident.push(stage.tensor(...memory));
          return resident.at(-1)!;
        });
      },
    );
    const { outputs } = program;
    stage.willRead(outputs);
    return {
      input,
      count: frames,
      firstResult: outputs,
      async run(work, { first = [], reads = [], begin, received }) {
        const size = outputs.shape.slice(1).reduce((product, side) => product * side, 1);
        // The first latent frame is one frame of the video: those that would be before it are dropped.
        const dropped = (tinyTemporalScale(config) - 1) * size;
        for (let i = 0; i < frames; i++) {
          const call = program.call({ frame: [i] });
          const before = [clearing(resident), { write: () => begin?.() }, ...first];
          await work.run(i === 0 ? [...before, call] : [call], {
            reads: [...i === 0 ? reads : [], outputs],
            finished: (contents) => {
              const pixels = contents.at(-1)!;
              received(i + 1, i === 0 ? pixels.subarray(dropped) : pixels, contents.slice(0, -1));
            },
          });
        }
      },
    };
  };
}
