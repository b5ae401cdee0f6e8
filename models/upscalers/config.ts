/** What the files of upscalers tell by their tensors; none has a `config.json`. */
import { z } from "zod";

/** Configuration of either kind of upscaler. */
export const UPSCALER_CONFIG = z.object({
  _class_name: z.enum(["SRVGGNetCompact", "RRDBNet"]),
  /** Channels between the convolutions. */
  num_feat: z.int().positive(),
  /** Convolutions between the first and the last, or blocks of blocks. */
  num_block: z.int().positive(),
  /** Channels that each convolution of a block adds; `RRDBNet` only. */
  num_grow_ch: z.int().positive().default(32),
  /** Result pixels along a side, for one of the image. */
  scale: z.int().min(1).max(4),
});

export type UpscalerConfig = z.output<typeof UPSCALER_CONFIG>;
