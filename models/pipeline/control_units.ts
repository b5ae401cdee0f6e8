/** Control pictures of a request: which ControlNet sees each, how much it weighs, for which steps, and what is wrong with them. */
import { excerpt } from "../../hub/json_file.ts";
import { cannyEdges } from "../../media/canny.ts";
import { isInpainting } from "./inpainting.ts";
import type { ControlBalance, ControlType, OptionalSettings } from "./settings.ts";
import type { ControlNetInfo, InputImage, PipelineInfo, PipelineRequest } from "./types.ts";
import { SettingError } from "../setting_error.ts";

export const PICTURE_SETTINGS = ["controlType", "cannyLow", "cannyHigh"] as const;

const WEIGHT_SETTINGS = ["controlScale", "controlStart", "controlEnd"] as const;

const CONTROL_SETTINGS = [
  "controlNet",
  ...WEIGHT_SETTINGS,
  ...PICTURE_SETTINGS,
] as const satisfies readonly (keyof OptionalSettings)[];

const ALL_SETTINGS = [...CONTROL_SETTINGS, "controlMode", "controlBalance"] as const;

/** What diffusers' examples and other programs take for edges. */
export const CANNY = { low: 100, high: 200 };

export type ControlShape = "always" | "window";

type ControlRequest = Pick<PipelineRequest, "control" | typeof ALL_SETTINGS[number]>;

/** A picture that steers a result, and how it does. */
export interface ControlUnit {
  readonly picture: InputImage | undefined;
  readonly net: string | undefined;
  readonly scale: number | undefined;
  readonly start: number;
  readonly end: number;
  readonly mode: string | undefined;
  readonly balance: ControlBalance;
  readonly type: ControlType;
  readonly low: number;
  readonly high: number;
}

/** Whether a picture is made of the image and its mask, and none is given for it. */
function paints({ controlType }: Pick<ControlRequest, "controlType">): boolean {
  return controlType?.includes("inpaint") ?? false;
}

/** The pictures of a request with their settings; a single unit without a picture where there is none. */
export function controlUnits(request: ControlRequest): [ControlUnit, ...ControlUnit[]] {
  const { control = [], controlType = [] } = request;
  const given = control.values();
  const length = paints(request) ? controlType.length : Math.max(1, control.length);
  const units = Array.from({ length }, (_, i) => {
    const of = <T>(values: readonly T[] = []) => values.length === 1 ? values[0] : values[i];
    const type = of(controlType) ?? "map";
    return {
      picture: type === "inpaint" ? undefined : given.next().value,
      net: of(request.controlNet),
      scale: of(request.controlScale),
      start: of(request.controlStart) ?? 0,
      end: of(request.controlEnd) ?? 1,
      mode: of(request.controlMode) ?? (type === "canny" ? "canny" : undefined),
      balance: of(request.controlBalance) ?? "balanced",
      type,
      low: of(request.cannyLow) ?? CANNY.low,
      high: of(request.cannyHigh) ?? CANNY.high,
    };
  });
  return units as [ControlUnit, ...ControlUnit[]];
}

/** Which ControlNet sees each picture: the only one all, of several the named one, or that of the same place. */
export function controlNetsOf(
  request: ControlRequest,
  nets: readonly Pick<ControlNetInfo, "name">[],
): number[] {
  return controlUnits(request).map(({ net }, i) => {
    if (net !== undefined) return nets.findIndex(({ name }) => name === net);
    return nets.length === 1 ? 0 : i;
  });
}

export function isControlled(request: ControlRequest): boolean {
  return (request.control?.length ?? 0) > 0 || paints(request);
}

export function controlShape(
  request: ControlRequest & Pick<PipelineRequest, "task" | "mask">,
  { controlsByMask = false }: Pick<PipelineInfo, "controlsByMask">,
): ControlShape | undefined {
  if (!(controlsByMask ? isInpainting(request) : isControlled(request))) return undefined;
  const hasWindows = controlUnits(request).every(({ start, end }) => start > 0 || end < 1);
  return hasWindows ? "window" : "always";
}

export function controlSettings(
  nets: readonly ControlNetInfo[],
  { byMask = false, isBalanced = false }: {
    readonly isBalanced?: boolean;
    readonly byMask?: boolean;
  } = {},
): readonly (keyof OptionalSettings)[] {
  if (nets.length === 0) return [];
  if (byMask) return WEIGHT_SETTINGS;
  return [
    ...CONTROL_SETTINGS,
    ...nets.some(({ modes }) => modes) ? ["controlMode" as const] : [],
    ...isBalanced ? ["controlBalance" as const] : [],
  ];
}

export function isSteered(request: ControlRequest, step: number, steps: number): boolean {
  return controlUnits(request).some((unit) => isSteeredBy(unit, step, steps));
}

/** Whether a unit has its weight at a step. */
export function isSteeredBy(
  { start, end }: Pick<ControlUnit, "start" | "end">,
  step: number,
  steps: number,
): boolean {
  return step / steps >= start && (step + 1) / steps <= end;
}

/** What is wrong with the control pictures of a request, and the setting that is. */
export interface ControlProblem {
  readonly field: "control" | typeof ALL_SETTINGS[number];
  readonly text: string;
}

type ControlInfo = Pick<
  PipelineInfo,
  "controlNets" | "maxControls" | "controlsInpainting" | "controlsByMask" | "needsControl"
>;

/** Why a model does not take so many control pictures. */
export function controlCountProblem(
  count: number,
  { controlNets, maxControls = 1, controlsByMask, needsControl }: ControlInfo,
): string | undefined {
  if (controlsByMask && count > 0) {
    return "Cannot use a control picture: the ControlNet sees an image and its mask; give those, and omit the picture";
  }
  if (controlNets.length === 0 && !needsControl) {
    return "Cannot use a control picture: the model has no ControlNet; name its file with --controlnet at the start, or " +
      "omit the picture";
  }
  if (count <= maxControls) return undefined;
  return `Cannot use ${count} control pictures: this model takes ${maxControls}; omit others`;
}

/** @param count of control pictures, where the request does not hold them yet */
export function controlProblem(
  request: ControlRequest,
  info: ControlInfo,
  count: number = request.control?.length ?? 0,
): ControlProblem | undefined {
  const problem = (field: ControlProblem["field"], text: string) => ({ field, text });
  const { controlNets: nets } = info;
  const refusal = controlCountProblem(
    Math.max(count, paints(request) ? request.controlType!.length : 0),
    info,
  );
  if (refusal) return problem("control", refusal);
  const pictures = new Array<InputImage>(count).fill({
    width: 0,
    height: 0,
    data: new Uint8Array(),
  });
  const whole = { ...request, control: pictures };
  const units = controlUnits(whole);
  const wanted = units.filter(({ type }) => type !== "inpaint").length;
  if (paints(request) && !info.controlsInpainting) {
    return problem(
      "controlType",
      "Cannot use controlType inpaint: only ControlNets of Stable Diffusion see an image without what its mask redraws",
    );
  }
  if (paints(request) && wanted !== count) {
    return problem(
      "control",
      `Cannot use ${count} control pictures for controlType ${
        request.controlType!.join(", ")
      }: give ${wanted}; inpaint makes its own of the image and its mask`,
    );
  }
  const wrong = ALL_SETTINGS.find((name) =>
    ![1, units.length].includes(request[name]?.length ?? 1)
  );
  if (wrong) {
    const all = units.length > 1 ? `one for all ${units.length} pictures, or one for each` : "one";
    return problem(
      wrong,
      `Cannot use ${request[wrong]!.length} values of ${wrong}: give ${all}`,
    );
  }
  const named = nets.map(({ name }) => name).join(", ");
  for (const [i, place] of controlNetsOf(whole, nets).entries()) {
    const { net, start, end, mode } = units[i]!;
    if (net !== undefined && place < 0) {
      return problem(
        "controlNet",
        `Cannot use the ControlNet ${excerpt(net)}: the model has ${named || "none"}`,
      );
    }
    if (place >= nets.length && nets.length > 0) {
      return problem(
        "controlNet",
        `Cannot use ${count} control pictures without names: the model has ${nets.length} ControlNets, ${named}; say with ` +
          "controlNet which sees each picture",
      );
    }
    if (start >= end) {
      return problem(
        "controlStart",
        `controlStart must be below ${end}, where it ends, got ${start}`,
      );
    }
    const modes = nets[place]?.modes;
    if (!modes || mode !== undefined && modes.includes(mode)) continue;
    return problem(
      "controlMode",
      `controlMode must say what the control picture shows, one of ${modes.join(", ")}` +
        (mode === undefined ? "" : `, got ${mode}`),
    );
  }
  return undefined;
}

/** @throws {RangeError} where a picture is made of an image and its mask, and there is no mask */
export function checkPainted(
  request: Pick<ControlRequest, "controlType">,
  isMasked: boolean,
): void {
  if (isMasked || !paints(request)) return;
  throw new RangeError(
    "Cannot use controlType inpaint: the request has no mask; give an image and its mask",
  );
}

export function checkControl(request: PipelineRequest, info: PipelineInfo): void {
  const { control = [], width, height } = request;
  const { controlsByMask = false, needsControl } = info;
  if (control.length === 0 && needsControl) {
    throw new RangeError(
      "Cannot make an image without a depth map: this model sees one; give it as the control picture",
    );
  }
  if (!isControlled(request) && !(controlsByMask && isInpainting(request))) {
    const idle = ALL_SETTINGS.find((name) => request[name] !== undefined);
    // Without a ControlNet they are of something else, or refused already.
    if (!idle || info.controlNets.length === 0) return;
    const [lacks, advice] = controlsByMask
      ? ["mask, which this ControlNet sees", "give one with its image"]
      : ["control picture", "give one"];
    throw new SettingError(
      idle,
      `Cannot use ${idle}: the request has no ${lacks}; ${advice}, or omit ${idle}`,
    );
  }
  const problem = controlProblem(request, info);
  if (problem) throw new SettingError(problem.field, problem.text);
  checkPainted(request, isInpainting(request));
  const bytes = width * height * 3;
  for (const picture of control) {
    if (picture.width === width && picture.height === height && picture.data.length === bytes) {
      continue;
    }
    throw new RangeError(
      `Cannot steer by a picture of ${picture.width}x${picture.height} with ${picture.data.length} bytes: ` +
        `the result has ${width}x${height} in RGB, ${bytes} bytes; scale it first`,
    );
  }
}

export function controlPicture(
  { data, width, height }: InputImage,
  { type, low, high }: Pick<ControlUnit, "type" | "low" | "high">,
): Pick<InputImage, "data"> {
  return { data: type === "canny" ? cannyEdges(data, width, height, { low, high }) : data };
}
