/**
 * Models with a ControlNet, and requests as calls of the reference's pipelines were made of them.
 *
 * @module
 */
import { cpSync } from "node:fs";
import type { PipelineRequest } from "../models/mod.ts";
import type { Golden, GoldenCall } from "./golden.ts";
import { textRequest } from "./golden_request.ts";
import { withFolder } from "./safetensors.ts";

/** Names of FLUX.1's modes by their numbers. */
const MODES = ["canny", "tile", "depth", "blur", "pose", "gray", "lq"];

/**
 * Makes a model's folder: each part of the first golden that has it.
 *
 * @param goldens that of the ControlNet, then those of the model
 */
export async function withControlNet(
  goldens: readonly Golden[],
  use: (folder: string) => Promise<void>,
): Promise<void> {
  await withFolder({}, async (folder) => {
    for (const golden of goldens.toReversed()) cpSync(golden.folder, folder, { recursive: true });
    await use(folder);
  });
}

/** The request of a call with a control picture, maybe an input image and a mask. */
export function controlRequest(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const given = args as Record<string, number | undefined>;
  const image = (key: string) => {
    const { shape: [height, width], data } = golden.tensor(name, key);
    return { width: width!, height: height!, data: Uint8Array.from(data) };
  };
  const settings = {
    strength: given["strength"],
    trueCfgScale: given["true_cfg_scale"],
    controlScale: given["controlnet_conditioning_scale"] === undefined
      ? undefined
      : [given["controlnet_conditioning_scale"]],
    controlStart: given["control_guidance_start"],
    controlEnd: given["control_guidance_end"],
    controlMode: MODES[given["control_mode"] ?? -1],
  };
  return {
    ...textRequest(call),
    ...Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)),
    control: image("control"),
    ...(inputs.includes("given") && { task: "TI2I" as const, images: [image("given")] }),
    ...(inputs.includes("mask") && { mask: [Uint8Array.from(golden.tensor(name, "mask").data)] }),
  };
}
