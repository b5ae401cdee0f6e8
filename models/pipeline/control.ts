/**
 * What steers a result by a ControlNet, traced: the picture's latents, and residuals that blocks add.
 * Source: Zhang et al. 2023, "Adding Conditional Control to Text-to-Image Diffusion Models"; `FluxControlNetPipeline`.
 */
import {
  elementwise,
  f32,
  gather,
  type Graph,
  type Shape,
  slice,
  type Tensor,
  writing,
} from "../../runtime/mod.ts";
import type { ImageEncoder } from "./image_encoder.ts";
import { posteriorLatents } from "../autoencoders/kl/posterior.ts";
import type { Session } from "../memory/session.ts";
import { controlPicture, controlUnits, isSteeredBy } from "./control_units.ts";
import { cutOut } from "./inpainting.ts";
import type { TokenGrid } from "./latents.ts";
import type { PipelineRequest } from "./types.ts";
import type { Work } from "./work.ts";

interface ControlPictureOptions {
  /** How many pictures there are; one where an image and its mask are seen instead. */
  readonly pictures: number;
  /** Steps of the schedule. */
  readonly steps: number;
  /** Tokens of a picture's latents, then of the masked image's, [1, height, width, channels] each; `kept` is 1 where it stays. */
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

/** What a ControlNet sees in a step. */
export interface SeenPicture {
  /** [1, tokens, features] */
  readonly picture: Tensor;
  /** Weight, f32 [1]. */
  readonly scale: Tensor;
}

interface ControlPictures {
  /** Each picture with its weight at a step, u32 [1]. */
  seen(graph: Graph, step: Tensor): SeenPicture[];
  /** `noise` is that of each picture, where it is drawn. */
  run(work: Work, noise?: readonly Float32Array[]): Promise<void>;
}

/** @param encoder of all pictures, then of the image that is seen with its mask */
export function traceControlPictures(
  session: Session,
  encoder: ImageEncoder,
  { pictures, steps, tokens, noise, usualScale = 1, cutOut: sight }: ControlPictureOptions,
): ControlPictures {
  const programs = Array.from({ length: pictures }, (_, i) =>
    encoder.stage.program(
      `tokens ${i}`,
      {
        moments: sight ? encoder.moments : [encoder.moments[i]!],
        noise: noise && f32(...noise),
        kept: sight && f32(1, sight.size.height, sight.size.width, 1),
      },
      ({ moments, noise, kept }) =>
        tokens(moments.map((each) => posteriorLatents(each, noise)), kept),
    ));
  const scales = session.tensor("control scales", [steps, pictures]);
  return {
    seen(graph, step) {
      const now = gather(graph.use(scales), step);
      return programs.map(({ outputs }, i) => ({
        picture: graph.use(outputs),
        scale: slice(now, 1, i, i + 1).reshape(1),
      }));
    },
    async run(work, noise) {
      const { request } = work;
      const units = controlUnits(request);
      const cut = sight && cutOut(request, sight.hole);
      await encoder.run(work, [
        ...units.flatMap((unit) => unit.picture ? [controlPicture(unit.picture, unit)] : []),
        ...cut ? [{ data: cut.pixels }] : [],
      ]);
      const kept = cut && keptLatents(cut.mask, request, sight!.size);
      const weights = Array.from(
        { length: steps },
        (_, step) =>
          units.map((unit) => isSteeredBy(unit, step, steps) ? unit.scale ?? usualScale : 0),
      ).flat();
      await work.run([
        writing(scales, weights),
        ...programs.map((program, i) => program.call({ noise: noise?.[i], kept })),
      ]);
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

interface Steered<Own> {
  readonly x: Tensor;
  readonly control: ControlState<Own> | undefined;
}

export type Steering<Own> = (given: Steered<Own>, block: number) => Steered<Own>;

/** What ControlNets of the same transformer have computed so far. */
export type ControlStates<Own> = readonly (ControlState<Own> | undefined)[];

export interface SteeredByAll<Own> {
  readonly x: Tensor;
  readonly controls: ControlStates<Own>;
}

/** One ControlNet after the other adds to what a block gives. */
export function steeredByAll<Own>(
  all: readonly Steering<Own>[],
  { x, controls }: SteeredByAll<Own>,
  block: number,
): SteeredByAll<Own> {
  let sum = x;
  const next = all.map((steering, i) => {
    const steered = steering({ x: sum, control: controls[i] }, block);
    sum = steered.x;
    return steered.control;
  });
  return { x: sum, controls: next };
}

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
