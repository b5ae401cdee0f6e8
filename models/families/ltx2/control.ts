/**
 * A video whose tokens LoRAs see beside those of the video that is made: edges, depth or a pose for each frame, or a rougher video.
 * Source: Lightricks' IC-LoRAs; diffusers `LTX2InContextPipeline`.
 */
import { SettingError } from "../../setting_error.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { VideoGrid } from "./positions.ts";

export interface ControlVideo {
  /** How many times shorter its sides are than those of the result. */
  readonly scale: number;
  /** How much it counts, 0 to 1. */
  readonly strength: number;
}

/** LoRAs say how small the videos were that they were trained with. */
export function controlOf(
  { loras = [], controlScale: [strength = 1] = [] }: PipelineRequest,
): ControlVideo {
  const scales = loras.flatMap(({ lora }) => lora.referenceScale ?? []);
  return { scale: scales[0] ?? 1, strength };
}

export function checkLtx2Control(
  request: PipelineRequest,
  { rows, columns }: Omit<VideoGrid, "frames">,
): void {
  const { task, controlScale, loras = [], width, height } = request;
  if (task !== "V2V") {
    if (controlScale === undefined) return;
    throw new SettingError(
      "controlScale",
      `Cannot use a controlScale of ${controlScale} in ${task}: it is that of a control video; omit it`,
    );
  }
  const [strength = 1, ...others] = controlScale ?? [];
  if (!(strength >= 0 && strength <= 1) || others.length > 0) {
    throw new SettingError(
      "controlScale",
      `Cannot use a controlScale of ${
        controlScale!.join(", ")
      }: the one control video counts from 0 to 1`,
    );
  }
  const scales = new Set(loras.flatMap(({ lora }) => lora.referenceScale ?? []));
  if (scales.size > 1) {
    throw new RangeError(
      `Cannot use LoRAs together that were trained with control videos ${
        [...scales].join(" and ")
      } times smaller: pick one`,
    );
  }
  const { scale } = controlOf(request);
  if (rows % scale === 0 && columns % scale === 0) return;
  throw new RangeError(
    `Cannot make ${width}x${height} with a control video ${scale} times smaller, as the LoRA was trained: sides must be multiples of ${
      scale * width / columns
    }`,
  );
}
