/**
 * What steers a result by a ControlNet, traced: the picture's latents, and residuals that blocks add.
 * Source: Zhang et al. 2023, "Adding Conditional Control to Text-to-Image Diffusion Models"; `FluxControlNetPipeline`.
 */
import {
  type DeviceTensor,
  elementwise,
  f32,
  type Shape,
  type Tensor,
  writing,
} from "../../runtime/mod.ts";
import type { ImageEncoder } from "./image_encoder.ts";
import { posteriorLatents } from "../autoencoders/kl/posterior.ts";
import type { Session } from "../memory/session.ts";
import { controlPicture, controlUnits } from "./control_units.ts";
import { cutOut } from "./inpainting.ts";
import type { TokenGrid } from "./latents.ts";
import type { PipelineRequest } from "./types.ts";
import type { Work } from "./work.ts";

interface ControlPictureOptions {
  /** Tokens of the picture's latents, then of the masked image's, [1, height, width, channels] each; `kept` is 1 where it stays. */
  tokens(latents: readonly Tensor[], kept: Tensor | undefined): Tensor;
  readonly cutOut?: MaskedSight | undefined;
  /** Shape of the noise with which latents are drawn, [1, channels, rows, columns]; the most likely ones by default. */
  readonly noise?: Shape | undefined;
  readonly usualScale?: number;
}

interface MaskedSight {
  /** What stands for what is painted, in [-1, 1]. */
  readonly hole: number;
  readonly size: { readonly height: number; readonly width: number };
}

interface ControlPicture {
  /** [1, tokens, features] */
  readonly tokens: DeviceTensor;
  /** f32 [1] */
  readonly scale: DeviceTensor;
  run(work: Work, noise?: Float32Array): Promise<void>;
}

export function traceControlPicture(
  session: Session,
  encoder: ImageEncoder,
  { tokens, noise, usualScale = 1, cutOut: sight }: ControlPictureOptions,
): ControlPicture {
  const program = encoder.stage.program(
    "tokens",
    {
      moments: encoder.moments,
      noise: noise && f32(...noise),
      kept: sight && f32(1, sight.size.height, sight.size.width, 1),
    },
    ({ moments, noise, kept }) =>
      tokens(moments.map((each) => posteriorLatents(each, noise)), kept),
  );
  const scale = session.tensor("control scale", [1]);
  return {
    tokens: program.outputs,
    scale,
    async run(work, noise) {
      const { request } = work;
      const [{ scale: weight = usualScale, ...unit }] = controlUnits(request);
      const cut = sight && cutOut(request, sight.hole);
      await encoder.run(work, [
        ...unit.picture ? [controlPicture(unit.picture, unit)] : [],
        ...cut ? [{ data: cut.pixels }] : [],
      ]);
      const kept = cut && keptLatents(cut.mask, request, sight!.size);
      await work.run([writing(scale, [weight]), program.call({ noise, kept })]);
    },
  };
}

/** 1 where the pixel nearest to a latent's corner is kept, as the reference scales masks down. */
function keptLatents(
  painted: Float32Array,
  image: Pick<PipelineRequest, "width" | "height">,
  { height, width }: MaskedSight["size"],
): Float32Array {
  const [down, across] = [image.height / height, image.width / width];
  return Float32Array.from({ length: height * width }, (_, i) => {
    const [y, x] = [Math.floor(i / width), i % width];
    return 1 - painted[Math.floor(y * down) * image.width + Math.floor(x * across)]!;
  });
}

export interface ControlledPass {
  readonly sample: Tensor;
  readonly grid: TokenGrid;
  /** Row of what all timesteps make, u32 [1]. */
  readonly step: Tensor;
}

export interface ControlState<Own> {
  readonly own: Own;
  readonly residual: Tensor;
}

export interface Steered<Own> {
  readonly x: Tensor;
  readonly control: ControlState<Own> | undefined;
}

export type Steering<Own> = (given: Steered<Own>, block: number) => Steered<Own>;

/** Adds what a ControlNet's blocks give, each to an interval of the transformer's, computed when the first needs it. */
export function steering<Own>(
  { residuals, blocks, interval = Math.ceil(blocks / residuals) }: {
    readonly residuals: number;
    readonly blocks: number;
    readonly interval?: number;
  },
  scale: Tensor,
  next: (own: Own, layer: number) => ControlState<Own>,
): Steering<Own> {
  const layerOf = (block: number) => Math.floor(block / interval);
  return ({ x, control }, block) => {
    if (!control) return { x, control };
    const isNext = block === 0 || layerOf(block) !== layerOf(block - 1);
    const now = isNext ? next(control.own, layerOf(block)) : control;
    return { x: steered(x, now.residual, scale), control: now };
  };
}

export function steered(x: Tensor, residual: Tensor, scale: Tensor): Tensor {
  return elementwise("x + scale * c", { x, scale, c: residual }, { name: "control" });
}
