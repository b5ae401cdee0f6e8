/** The noise levels of a request, and its guidance. */
import {
  FlowMatchEulerScheduler,
  linspace,
  type Schedule,
  type ScheduleOptions,
} from "../../schedulers/mod.ts";
import type { QwenImageParts } from "./config.ts";
import { layeredShift, layerRules } from "./edit.ts";
import { elementwise } from "../../../runtime/mod.ts";
import type { CombinedGuidance, Guidance } from "../../pipeline/guidance.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { squares, sumOfRows } from "../../blocks/sums.ts";

/** Shifted by the size. A request's shift overrides all that the file says of shifting, as Qwen-Image-Lightning has it. */
export function qwenImageSchedule(
  { scheduler, schedulerFile, ...parts }: Pick<
    QwenImageParts,
    "scheduler" | "schedulerFile" | "className"
  >,
  tokens: number,
  steps: number,
  { shift, ...options }: Omit<ScheduleOptions, "mu"> = {},
): Schedule {
  const sigmas = options.sigmas ?? linspace(1, 1 / steps, steps);
  const own = shift === undefined ? scheduler : new FlowMatchEulerScheduler({
    ...schedulerFile.config,
    use_dynamic_shifting: true,
    time_shift_type: "exponential",
    shift_terminal: null,
    base_shift: Math.log(shift),
    max_shift: Math.log(shift),
  });
  const isLayered = layerRules(parts) !== undefined && shift === undefined;
  const mu = isLayered ? layeredShift(tokens) : own.mu(tokens);
  return own.setTimesteps(steps, { ...options, sigmas, mu });
}

export function guidanceOf(
  { trueCfgScale, guidanceScale }: Pick<PipelineRequest, "trueCfgScale" | "guidanceScale">,
): number {
  return trueCfgScale ?? guidanceScale;
}

export function qwenImageGuidance(request: PipelineRequest, prompts: number): Guidance {
  if (prompts === 1) return { weights: () => [1] };
  return {
    weights: () => [1, 1],
    combined: { settings: () => [guidanceOf(request)], weight: () => 1 },
  };
}

/** n + scale · (p − n), every token as long as p's own. Source: diffusers `QwenImagePipeline`, `true_cfg_scale`. */
export const NORMED_GUIDANCE: CombinedGuidance = {
  settings: 1,
  trace([positive, negative], settings) {
    const predicted = elementwise("n + g * (p - n)", { p: positive!, n: negative!, g: settings });
    const squared = { p: sumOfRows(squares(positive!)), q: sumOfRows(squares(predicted)) };
    const factor = elementwise("sqrt(p / max(q, least))", squared, { scalars: { least: 1e-30 } });
    return elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
  },
};
