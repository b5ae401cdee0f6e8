/** Programs of the bundled model on the device, as a guided image of 64×64 runs them. */

import { fileURLToPath } from "node:url";
import type { GenerateRequest } from "../../engine/mod.ts";
import { openModelFiles } from "../../models/checkpoints/open_model.ts";
import { WAN } from "../../models/families/wan/pipeline.ts";
import { openFamily } from "../../models/pipeline/diffusion_pipeline.ts";
import { type Device, elementCount, type Executable } from "../../runtime/mod.ts";
import { ROOT } from "../root.ts";

export const BUNDLED: string = fileURLToPath(new URL("models/bundled", ROOT));

/** The image that every bench makes: guided, so each step runs both prompts. */
export const IMAGE = {
  prompt: "a red circle on a blue background",
  width: 64,
  height: 64,
  numFrames: 1,
  seed: 7,
  numInferenceSteps: 20,
  guidanceScale: 3.5,
} satisfies GenerateRequest;

/** Words of the stand-in prompts. */
const LENGTH = 9;
/** Programs, by the names that the benches give them. */
const PROGRAMS = { step: "denoise: pass 0", decode: "decode: decode first" };

/** Loads the programs; what they hold is freed with the device. */
export async function loadPrograms(
  device: Device,
): Promise<Readonly<Record<keyof typeof PROGRAMS, Executable>>> {
  const pipeline = await openFamily(WAN, await openModelFiles(BUNDLED));
  const { session, runner } = pipeline.trace(device.target, {
    ...IMAGE,
    task: "T2I",
    negativePrompt: "",
  });
  await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
  for (const tensor of session.tensors) {
    if (!tensor.isAllocated) continue;
    const count = elementCount(tensor.shape);
    // Of the size that real ones have: zeros would be faster on some adapters, and NaN slower.
    if (tensor.dtype === "f32") {
      tensor.write(Float32Array.from({ length: count }, (_, i) => Math.sin(1.3 * i)));
    } else if (tensor.name.endsWith("lengths")) tensor.write(new Array<number>(count).fill(LENGTH));
  }
  const executable = (name: string) =>
    runner.executable(session.stages.flatMap(({ programs }) => programs.get(name) ?? [])[0]!);
  return { step: executable(PROGRAMS.step), decode: executable(PROGRAMS.decode) };
}
