/**
 * What steers a result by a ControlNet: a picture, how much it weighs, and for which of the steps.
 *
 * Source: Zhang et al. 2023, "Adding Conditional Control to Text-to-Image Diffusion Models"; diffusers
 * `FluxControlNetPipeline`.
 */
import { cannyEdges } from "../../media/canny.ts";
import { type DeviceTensor, elementwise, type Tensor, writing } from "../../runtime/mod.ts";
import type { ImageEncoder } from "../autoencoders/image_encoder.ts";
import type { Session } from "../memory/session.ts";
import type { InputImage, OptionalSettings, PipelineInfo, PipelineRequest } from "./types.ts";
import type { Work } from "./work.ts";

/** Settings that say what a control picture is. */
export const PICTURE_SETTINGS = ["controlType", "cannyLow", "cannyHigh"] as const;

/** Settings that say how a control picture steers. */
const CONTROL_SETTINGS = [
  ...["controlScale", "controlStart", "controlEnd"] as const,
  ...PICTURE_SETTINGS,
] as const satisfies readonly (keyof OptionalSettings)[];

/** What diffusers' examples and other programs take for edges. */
const CANNY = { low: 100, high: 200 };

/** Whether all steps are steered, or those of a window; which ones is the request's to say when it runs. */
export type ControlShape = "always" | "window";

/** How a request is steered; not at all without a control picture. */
export function controlShape(
  { control, controlStart = 0, controlEnd = 1 }: Pick<
    PipelineRequest,
    "control" | "controlStart" | "controlEnd"
  >,
): ControlShape | undefined {
  if (!control) return undefined;
  return controlStart > 0 || controlEnd < 1 ? "window" : "always";
}

/** Settings that requests of a model may have beside a control picture. */
export function controlSettings(
  hasControlNet: boolean,
  modes?: readonly string[],
): readonly (keyof OptionalSettings)[] {
  if (!hasControlNet) return [];
  return [...CONTROL_SETTINGS, ...modes ? ["controlMode" as const] : []];
}

/** Whether a step is steered: it lies in the window from its beginning to its end. */
export function isSteered(
  { controlStart = 0, controlEnd = 1 }: Pick<PipelineRequest, "controlStart" | "controlEnd">,
  step: number,
  steps: number,
): boolean {
  return step / steps >= controlStart && (step + 1) / steps <= controlEnd;
}

/** The mode of a request: that of its picture, or the edges that are made of it. */
export function controlMode(
  { controlMode, controlType }: Pick<PipelineRequest, "controlMode" | "controlType">,
): string | undefined {
  return controlMode ?? (controlType === "canny" ? "canny" : undefined);
}

/**
 * Checks the control picture of a request, and what is said of it.
 *
 * @throws {RangeError} naming what is missing, too much, or of the wrong size
 */
export function checkControl(
  request: PipelineRequest,
  { optionalParts, controlModes }: PipelineInfo,
): void {
  const { control, width, height, controlScale = [1], controlStart = 0, controlEnd = 1 } = request;
  if (!control) {
    const names = [...CONTROL_SETTINGS, "controlMode"] as const;
    const idle = names.find((name) => request[name] !== undefined);
    // Without a ControlNet they are of something else, or refused already.
    if (!idle || !optionalParts.includes("controlnet")) return;
    throw new RangeError(
      `Cannot use ${idle}: the request has no control picture; give one, or leave ${idle} out`,
    );
  }
  if (!optionalParts.includes("controlnet")) {
    throw new RangeError(
      "Cannot use a control picture: the model has no ControlNet; name its file with --controlnet, or leave the picture out",
    );
  }
  const bytes = width * height * 3;
  if (control.width !== width || control.height !== height || control.data.length !== bytes) {
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
      `Cannot steer from ${controlStart} to ${controlEnd} of the steps: controlStart must be below controlEnd`,
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

/** A control picture on its way to latents, and its weight. */
export class ControlPicture {
  /** Of the picture, [1, height, width, 2·channels]: means, then log-variances. */
  readonly moments: DeviceTensor;
  /** f32 [1] */
  readonly scale: DeviceTensor;
  readonly #encoder: ImageEncoder;
  readonly #usualScale: number;

  /**
   * Takes what encodes pictures of the size of the result.
   *
   * @param usualScale weight where a request says none
   */
  constructor(session: Session, encoder: ImageEncoder, usualScale = 1) {
    this.moments = encoder.moments[0]!;
    this.scale = session.tensor("control scale", [1]);
    this.#encoder = encoder;
    this.#usualScale = usualScale;
  }

  /** Encodes the picture of a request. */
  async run(work: Work): Promise<void> {
    const { controlScale: [scale = this.#usualScale] = [] } = work.request;
    await this.#encoder.run(work, [controlPicture(work.request.control!, work.request)]);
    await work.run([writing(this.scale, [scale])]);
  }
}

/** The picture as the model was trained with: a map as it is, or the edges of what it shows. */
export function controlPicture(
  { data, width, height }: InputImage,
  { controlType, cannyLow: low = CANNY.low, cannyHigh: high = CANNY.high }: PipelineRequest,
): Pick<InputImage, "data"> {
  return { data: controlType === "canny" ? cannyEdges(data, width, height, { low, high }) : data };
}

/**
 * Adds to the blocks of a transformer what the blocks of a ControlNet give. Where there are more of the former, each of
 * the latter serves several in turn.
 *
 * @param residuals of the ControlNet's blocks, each made when it is asked for
 * @param counts blocks of both
 * @param scale f32 [1]
 * @returns from what the block of an index gives to what the next one takes
 */
export function steering(
  residuals: Iterator<Tensor, unknown>,
  { residuals: count, blocks }: { readonly residuals: number; readonly blocks: number },
  scale: Tensor,
): (x: Tensor, block: number) => Tensor {
  if (count === 0) return (x) => x;
  const each = Math.ceil(blocks / count);
  let current: Tensor | undefined;
  return (x, block) => {
    if (block % each === 0) current = residuals.next().value as Tensor;
    return elementwise("x + scale * c", { x, scale, c: current! }, { name: "control" });
  };
}
