/**
 * Models with a ControlNet or an IP-Adapter, and requests as calls of the reference's pipelines were made of them.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { readLora } from "../../models/lora/read_lora.ts";
import type { AppliedLora } from "../../models/lora/types.ts";
import {
  type ModelParts,
  openPipeline,
  type Pipeline,
  type PipelineRequest,
} from "../../models/mod.ts";
import { withComposed } from "./composed.ts";
import { assertClose, type Golden, type GoldenCall } from "./golden.ts";
import { textRequest } from "./golden_request.ts";
import { checkMasked } from "./masked.ts";
import { openTestDevice } from "./model_run.ts";
import { psnr } from "./pixels.ts";

/** f32 against torch in f32; weights as stored. */
const MIN_PSNR = 100;
/** Largest error of latents after the last step, as a part of their largest magnitude. */
const LATENT_GATE = 1e-4;

/** Names of FLUX.1's modes by their numbers. */
const MODES = ["canny", "tile", "depth", "blur", "pose", "gray", "lq"];

/** Those of SDXL's. */
const XL_MODES = [
  ...["openpose", "depth", "scribble", "canny", "normal", "segment", "tile", "repaint"],
];

/** The request of a call with control pictures, maybe an input image and a mask. */
export function controlRequest(golden: Golden, call: GoldenCall): PipelineRequest {
  const { name, args, inputs } = call;
  const given = args as Record<string, number | undefined>;
  const listed = (key: string) => given[key] === undefined ? undefined : [given[key]].flat();
  const scale = given["controlnet_conditioning_scale"] ?? given["adapter_conditioning_scale"];
  const pictures = inputs.filter((key) => /^control(_\d)?$/.test(key));
  const isFlux1 = String(args["pipeline"]).startsWith("Flux");
  // Of those without modes the reference has none, and here any.
  const modes = Array.isArray(args["control_mode"])
    ? args["control_mode"].map((mode) => (isFlux1 ? MODES[mode ?? 0] : XL_MODES[mode]))
    : [given["control_mode"] ?? []].flat().map((mode) => MODES[mode]);
  const image = (key: string) => {
    const { shape: [height, width], data } = golden.tensor(name, key);
    return { width: width!, height: height!, data: Uint8Array.from(data) };
  };
  const settings = {
    // What begins from noise alone has none in the reference.
    strength: given["strength"] ?? (inputs.includes("given") ? 1 : undefined),
    guidanceScale: given["guidance_scale"] ?? given["true_cfg_scale"],
    trueCfgScale: given["true_cfg_scale"],
    controlScale: scale === undefined ? undefined : [scale].flat(),
    controlNet: args["control_net"],
    controlType: args["control_type"],
    controlBalance: args["guess_mode"] ? ["control"] : listed("control_balance"),
    controlStart: listed("control_guidance_start"),
    controlEnd: listed("control_guidance_end"),
    ...Object.fromEntries(
      ["Name", "Scale", "Mode"].map((part) => [
        `ipAdapter${part}`,
        listed(`ip_adapter_${part.toLowerCase()}`),
      ]),
    ),
    controlMode: modes.length > 0 ? modes : undefined,
  };
  const references = inputs.filter((name) => /^reference(_\d)?$/.test(name));
  const shown = inputs.filter((name) => name.startsWith("reference_mask"));
  return {
    ...textRequest(call),
    ...(references.length > 0 && { references: references.map(image) }),
    ...(shown.length > 0 && { referenceMasks: shown.map(image) }),
    ...Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)),
    ...(pictures.length > 0 && { control: pictures.map(image) }),
    ...(inputs.includes("given") && { task: "TI2I" as const, images: [image("given")] }),
    ...(inputs.includes("mask") && { mask: [Uint8Array.from(golden.tensor(name, "mask").data)] }),
  };
}

/**
 * Runs all calls, and compares latents and pixels.
 *
 * @param goldens that of the ControlNet, then those of the model
 * @param names of the calls; all by default
 * @param parts paths of files and folders, as seen from the folder that all goldens together make
 */
export async function checkControlled(
  t: Deno.TestContext,
  goldens: readonly [Golden, ...Golden[]],
  names?: readonly string[],
  parts: ModelParts = {},
): Promise<void> {
  const [golden] = goldens;
  await withComposed(goldens, async (folder) => {
    const device = await openTestDevice();
    try {
      const paths = Object.entries(parts).map(([part, path]) => [
        ...[part, typeof path === "string" ? join(folder, path) : path],
      ]);
      using pipeline = await openPipeline(folder, Object.fromEntries(paths));
      await pipeline.load(device);
      for (const call of golden.calls.filter(({ name }) => names?.includes(name) ?? true)) {
        await t.step(call.name, async () => {
          const loras = call.name === "adapted" ? await adaptersOf(folder, pipeline) : [];
          await checkCall(golden, pipeline, call, loras);
        });
      }
    } finally {
      device.destroy();
    }
  });
}

/** The LoRA of FLUX.1's golden, as strong as there. */
async function adaptersOf(folder: string, pipeline: Pipeline): Promise<AppliedLora[]> {
  const key = join(folder, "adapter-diffusers.safetensors");
  const lora = await readLora(key, pipeline.adaptable);
  return [{ key, lora, strength: 0.7, mode: "dynamic", targets: ["transformer"] }];
}

async function checkCall(
  golden: Golden,
  pipeline: Pipeline,
  call: GoldenCall,
  loras: readonly AppliedLora[],
): Promise<void> {
  const request = { ...controlRequest(golden, call), loras };
  const { latents, frames } = await pipeline.generate(request);
  const expected = golden.tensor(call.name, "latents");
  assertClose("latents", { shape: expected.shape, data: latents }, expected, LATENT_GATE);
  const { data } = golden.tensor(call.name, "image");
  const decibels = request.mask ? checkMasked(frames[0]!, request, data) : psnr(frames[0]!, data);
  if (Deno.env.get("DENOISE_SHOW_ERRORS")) {
    console.log(`${call.name}: PSNR ${decibels.toFixed(1)} dB`);
  }
  assert.ok(decibels > MIN_PSNR, `PSNR is ${decibels.toFixed(1)} dB`);
}
