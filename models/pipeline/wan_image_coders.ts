/** The autoencoder's programs for images, in tiles where that is asked for: Qwen-Image has it for images alone. */
import { slice, type Tensor, type Weights } from "../../runtime/mod.ts";
import type { Session, Stage } from "../memory/session.ts";
import { ImageEncoder } from "./image_encoder.ts";
import { TiledCoder, type TiledSize } from "../autoencoders/tiled_coder.ts";
import type { Stream } from "../autoencoders/wan/blocks.ts";
import type { WanVaeConfig } from "../autoencoders/wan/config.ts";
import { wanDecoder, wanEncoder } from "../autoencoders/wan/coder.ts";
import { FrameHistory } from "../autoencoders/wan/history.ts";

/** An autoencoder's configuration and weights. */
interface WanVae {
  readonly config: WanVaeConfig;
  readonly weights: Weights;
}

/** Nothing comes before an image. */
const IMAGE: Stream = { place: "only", history: new FrameHistory() };

/** From latents in the autoencoder's units to pixels, [height·s, width·s, channels], 3 or 4 of them. */
export function wanImageDecoder(
  { config, weights }: WanVae,
  size: TiledSize,
  channels = config.out_channels,
): (stage: Stage, name: string) => TiledCoder {
  return (stage, name) =>
    new TiledCoder(stage, {
      ...size,
      name,
      inputScale: 1,
      resultScale: config.scale_factor_spatial,
      channels: config.z_dim,
      trace: (graph, part) => {
        const pixels = withoutTime(wanDecoder(graph, config, weights.root, withTime(part), IMAGE));
        return channels < config.out_channels ? slice(pixels, -1, 0, channels) : pixels;
      },
    });
}

/** Traces the way from pixels, [height·s, width·s, 3] in [-1, 1], or 4 with alpha, to the moments of latents. */
function wanImageEncoder(
  { config, weights }: WanVae,
  size: TiledSize,
): (stage: Stage, name: string) => TiledCoder {
  return (stage, name) =>
    new TiledCoder(stage, {
      ...size,
      name,
      inputScale: config.scale_factor_spatial,
      resultScale: 1,
      channels: config.in_channels,
      trace: (graph, part) =>
        withoutTime(wanEncoder(graph, config, weights.root, withTime(part), IMAGE)),
    });
}

/** Input images on their way to the moments of latents. */
export class WanImageEncoder extends ImageEncoder {
  /** Traces the programs in a stage of their own. */
  constructor(session: Session, vae: WanVae, sizes: readonly TiledSize[], name?: string) {
    super(session, (size) => wanImageEncoder(vae, size), sizes, 2 * vae.config.z_dim, name);
  }
}

function withTime(x: Tensor): Tensor {
  return x.reshape(1, ...x.shape);
}

function withoutTime(x: Tensor): Tensor {
  return x.reshape(...x.shape.slice(1));
}
