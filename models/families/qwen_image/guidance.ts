/**
 * Guidance that changes the direction of a token's velocity and not its length.
 *
 * Source: diffusers `QwenImagePipeline`, `true_cfg_scale`.
 */
import { elementwise } from "../../../runtime/mod.ts";
import type { CombinedGuidance, Guidance } from "../../pipeline/guidance.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { squares, sumOfRows } from "../../blocks/sums.ts";

export function guidanceOf(
  { trueCfgScale, guidanceScale }: Pick<PipelineRequest, "trueCfgScale" | "guidanceScale">,
): number {
  return trueCfgScale ?? guidanceScale;
}

export function qwenImageGuidance(request: PipelineRequest, prompts: number): Guidance {
  if (prompts === 1) return { weights: () => [1] };
  return {
    weights: () => [1, 1],
    combined: { settings: [guidanceOf(request)], weight: () => 1 },
  };
}

/** n + scale · (p − n), every token as long as p's own. The setting is the scale. */
export const NORMED_GUIDANCE: CombinedGuidance = {
  settings: 1,
  trace(positive, negative, settings) {
    const predicted = elementwise("n + g * (p - n)", { p: positive, n: negative, g: settings });
    const squared = { p: sumOfRows(squares(positive)), q: sumOfRows(squares(predicted)) };
    const factor = elementwise("sqrt(p / max(q, least))", squared, { scalars: { least: 1e-30 } });
    return elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
  },
};
