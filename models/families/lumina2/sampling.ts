/** Guidance, and the time that the transformer takes. Source: diffusers `Lumina2Pipeline`. */
import { elementwise, slice } from "../../../runtime/mod.ts";
import { unitTimestep } from "../../blocks/embeddings.ts";
import { squares, sumOfRows } from "../../blocks/sums.ts";
import { type CombinedGuidance, type Guidance, guidedOutput } from "../../pipeline/guidance.ts";
import type { TokenGrid } from "../../pipeline/latents.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { rearrange } from "../../rearrange.ts";
import { PATCH_SIDE } from "./config.ts";

/** How much of the noise is gone, 0 to 1, which runs against the scheduler's time. */
export function elapsedTime(timestep: number): number {
  return Math.fround(1 - unitTimestep(timestep));
}

/** Whether the guided output gets the norm of the prompt's own. */
export function isNormed({ guidanceRescale = 1 }: PipelineRequest): boolean {
  return guidanceRescale > 0;
}

/** n + scale · (p − n), of negated velocities, in the share of the steps that `guidanceEnd` is (`cfg_trunc_ratio`). */
export function lumina2Guidance(
  { guidanceScale: scale, guidanceRescale = 1, guidanceEnd = 1 }: PipelineRequest,
  steps: number,
  prompts: number,
): Guidance {
  if (prompts === 1) return { weights: () => [-1] };
  return {
    weights: (i) => ((i + 1) / steps <= guidanceEnd ? [-scale, scale - 1] : [-1, 0]),
    ...(guidanceRescale > 0 && {
      combined: { settings: () => [scale, guidanceRescale], weight: () => -1 },
    }),
  };
}

/**
 * n + scale · (p − n), of which every row of latents gets the length of p's own (`cfg_normalization`), by a share. The settings are
 * scale and share.
 */
export function normedGuidance({ rows }: TokenGrid): CombinedGuidance {
  const sides = { y: rows, i: PATCH_SIDE, j: PATCH_SIDE };
  return {
    settings: 2,
    trace(outputs, settings) {
      const [p, n] = outputs.map((x) => rearrange(x, "1 (y x) (i j c) -> 1 (y i c) (x j)", sides));
      const predicted = guidedOutput(p!, n!, settings);
      const factor = elementwise("1.0 - share + share * sqrt(p / max(q, least))", {
        share: slice(settings, 2, 1, 2),
        p: sumOfRows(squares(p!)),
        q: sumOfRows(squares(predicted)),
      }, { scalars: { least: 1e-30 } });
      const scaled = elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
      return rearrange(scaled, "1 (y i c) (x j) -> 1 (y x) (i j c)", sides);
    },
  };
}
