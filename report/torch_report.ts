/** What torch makes of the same ops and parts on the same card, as `tools/gpu_report/torch.py` writes it. */
import { z } from "zod";

const TORCH_REPORT = z.object({
  device: z.string(),
  torch: z.string(),
  dtype: z.string(),
  ops: z.array(z.object({
    spec: z.string(),
    ms: z.number().positive(),
    flops: z.number(),
    bytes: z.number().positive(),
  })),
  parts: z.array(z.object({
    title: z.string(),
    width: z.number(),
    height: z.number(),
    ms: z.number().positive(),
  })),
});

/** Torch's times of the same ops and parts. */
export type TorchReport = z.output<typeof TORCH_REPORT>;

/** Reads such a file. */
export async function readTorchReport(path: string): Promise<TorchReport> {
  try {
    return TORCH_REPORT.parse(JSON.parse(await Deno.readTextFile(path)));
  } catch (error) {
    throw new RangeError(
      `Cannot take ${path} for a file of torch's times: ${
        (error as Error).message.split("\n")[0]
      }; ` +
        "make it with tools/gpu_report/torch.py",
    );
  }
}
