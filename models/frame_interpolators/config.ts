/** What the files of RIFE's networks tell by their tensors; none has a `config.json`. */
import { z } from "zod";

/** RIFE 4.15 and newer. */
export const FRAME_INTERPOLATOR_CONFIG = z.object({
  _class_name: z.literal("IFNet"),
  /** Channels of each block, from the coarsest; each sees twice the size of the one before. */
  block_channels: z.array(z.int().positive()).min(2).max(6),
  /** Channels that the head makes of each frame. */
  head_channels: z.int().positive(),
  /** Channels that each block hands to the next beside flow and mask; none before RIFE 4.22. */
  feature_channels: z.int().min(0),
});

export type FrameInterpolatorConfig = z.output<typeof FRAME_INTERPOLATOR_CONFIG>;
