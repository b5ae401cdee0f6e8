/**
 * What steers a result by a ControlNet: a picture, how much it weighs, and for which of the steps.
 * Source: Zhang et al. 2023, "Adding Conditional Control to Text-to-Image Diffusion Models"; `FluxControlNetPipeline`.
 */
import { cannyEdges } from "../../media/canny.ts";
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
import { cutOut, isInpainting } from "./inpainting.ts";
import type { TokenGrid } from "./latents.ts";
import type { OptionalSettings } from "./settings.ts";
import type { InputImage, PipelineInfo, PipelineRequest } from "./types.ts";
import type { Work } from "./work.ts";

export const PICTURE_SETTINGS = ["controlType", "cannyLow", "cannyHigh"] as const;

const WEIGHT_SETTINGS = ["controlScale", "controlStart", "controlEnd"] as const;

const CONTROL_SETTINGS = [
  ...WEIGHT_SETTINGS,
  ...PICTURE_SETTINGS,
] as const satisfies readonly (keyof OptionalSettings)[];

/** What diffusers' examples and other programs take for edges. */
const CANNY = { low: 100, high: 200 };

export type ControlShape = "always" | "window";

export function controlShape(
  { control, controlStart = 0, controlEnd = 1, ...request }: Pick<
    PipelineRequest,
    "control" | "controlStart" | "controlEnd" | "task" | "mask"
  >,
  { controlsByMask = false }: Pick<PipelineInfo, "controlsByMask">,
): ControlShape | undefined {
  if (!(controlsByMask ? isInpainting(request) : control)) return undefined;
  return controlStart > 0 || controlEnd < 1 ? "window" : "always";
}

export function controlSettings(
  hasControlNet: boolean,
  { modes, byMask = false }: {
    readonly modes?: readonly string[] | undefined;
    readonly byMask?: boolean;
  } = {},
): readonly (keyof OptionalSettings)[] {
  if (!hasControlNet) return [];
  if (byMask) return WEIGHT_SETTINGS;
  return [...CONTROL_SETTINGS, ...modes ? ["controlMode" as const] : []];
}

export function isSteered(
  { controlStart = 0, controlEnd = 1 }: Pick<PipelineRequest, "controlStart" | "controlEnd">,
  step: number,
  steps: number,
): boolean {
  return step / steps >= controlStart && (step + 1) / steps <= controlEnd;
}

export function controlMode(
  { controlMode, controlType }: Pick<PipelineRequest, "controlMode" | "controlType">,
): string | undefined {
  return controlMode ?? (controlType === "canny" ? "canny" : undefined);
}

export function checkControl(
  request: PipelineRequest,
  { optionalParts, controlModes, controlsByMask = false, needsControl }: PipelineInfo,
): void {
  const { control, width, height, controlScale = [1], controlStart = 0, controlEnd = 1 } = request;
  if (control && controlsByMask) {
    throw new RangeError(
      "Cannot use a control picture: this ControlNet sees an image and its mask; give those, and leave the picture out",
    );
  }
  const isSteered = controlsByMask ? isInpainting(request) : control !== undefined;
  if (!control && needsControl) {
    throw new RangeError(
      "Cannot make an image without a depth map: this model sees one; give it as the control picture",
    );
  }
  if (!isSteered) {
    const names = [...CONTROL_SETTINGS, "controlMode"] as const;
    const idle = names.find((name) => request[name] !== undefined);
    // Without a ControlNet they are of something else, or refused already.
    if (!idle || !optionalParts.includes("controlnet")) return;
    const [lacks, advice] = controlsByMask
      ? ["mask, which this ControlNet sees", "give one with its image"]
      : ["control picture", "give one"];
    throw new RangeError(
      `Cannot use ${idle}: the request has no ${lacks}; ${advice}, or omit ${idle}`,
    );
  }
  if (!optionalParts.includes("controlnet") && !needsControl) {
    throw new RangeError(
      "Cannot use a control picture: the model has no ControlNet; name its file with --controlnet, or leave the picture out",
    );
  }
  const bytes = width * height * 3;
  if (
    control &&
    (control.width !== width || control.height !== height || control.data.length !== bytes)
  ) {
    throw new RangeError(
      `Cannot steer by a picture of ${control.width}x${control.height} with ${control.data.length} bytes: ` +
        `the result has ${width}x${height} in RGB, ${bytes} bytes; scale it first`,
    );
  }
  if (controlScale.length !== 1) {
    throw new RangeError(
      `Cannot use ${controlScale.length} weights of a control picture: a ControlNet takes one`,
    );
  }
  if (controlStart >= controlEnd) {
    throw new RangeError(
      `Cannot steer from ${controlStart} to ${controlEnd} of the steps: it must begin before it ends`,
    );
  }
  const mode = controlMode(request);
  if (!controlModes || mode && controlModes.includes(mode)) return;
  throw new RangeError(
    `Cannot steer by ${mode ? `the mode ${mode}` : "a picture of no mode"}: this ControlNet takes ${
      controlModes.join(", ")
    }; say with controlMode what the picture shows`,
  );
}

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
      const { control, controlScale: [weight = usualScale] = [] } = request;
      const cut = sight && cutOut(request, sight.hole);
      await encoder.run(work, [
        ...control ? [controlPicture(control, request)] : [],
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

export function controlPicture(
  { data, width, height }: InputImage,
  { controlType, cannyLow: low = CANNY.low, cannyHigh: high = CANNY.high }: PipelineRequest,
): Pick<InputImage, "data"> {
  return { data: controlType === "canny" ? cannyEdges(data, width, height, { low, high }) : data };
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

/** Adds what a ControlNet's blocks give, each to several of the transformer's in turn, computed when the first needs it. */
export function steering<Own>(
  { residuals, blocks }: { readonly residuals: number; readonly blocks: number },
  scale: Tensor,
  next: (own: Own, layer: number) => ControlState<Own>,
): Steering<Own> {
  const each = Math.ceil(blocks / residuals);
  return ({ x, control }, block) => {
    if (!control) return { x, control };
    const now = block % each === 0 ? next(control.own, block / each) : control;
    return { x: steered(x, now.residual, scale), control: now };
  };
}

export function steered(x: Tensor, residual: Tensor, scale: Tensor): Tensor {
  return elementwise("x + scale * c", { x, scale, c: residual }, { name: "control" });
}
