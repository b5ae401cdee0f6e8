/** Requests as calls of the reference's pipelines were made. */
import { keepOwnSize } from "../../generation/size.ts";
import { fit } from "../../media/fit.ts";
import type { PipelineRequest, SamplerName } from "../../models/mod.ts";
import type { Golden, GoldenCall } from "./golden.ts";

/** The request of a call without images or videos; one frame where the call does not say. */
export function textRequest({ args }: GoldenCall): PipelineRequest {
  const numFrames = args["num_frames"] as number | undefined ?? 1;
  return {
    task: numFrames === 1 ? "T2I" : "T2V",
    prompt: args["prompt"] as string,
    negativePrompt: args["negative_prompt"] as string | undefined ?? "",
    width: args["width"] as number,
    height: args["height"] as number,
    numFrames,
    seed: args["seed"] as number,
    numInferenceSteps: args["num_inference_steps"] as number,
    guidanceScale: args["guidance_scale"] as number,
    ...(args["sampler"] !== undefined && { sampler: args["sampler"] as SamplerName }),
    ...(args["max_sequence_length"] !== undefined && {
      maxSequenceLength: args["max_sequence_length"] as number,
    }),
  };
}

/** The request of a call whose images are seen in sizes of their own, as requests bring them: multiples of `multiple`. */
export function editRequest(golden: Golden, call: GoldenCall, multiple: number): PipelineRequest {
  const { name, args, inputs } = call;
  const limits = { multiple, maxPixels: 1024 * 1024, minSide: 64, maxAspect: 8 };
  const images = inputs.filter((input) => input.startsWith("image")).map((input) => {
    const { shape: [height, width], data } = golden.tensor(name, input);
    const image = { width: width!, height: height!, data: Uint8Array.from(data) };
    return fit(image, keepOwnSize(image, limits));
  });
  return {
    ...textRequest(call),
    ...(images.length > 0 && { task: "TI2I" as const, images }),
    ...(inputs.includes("mask") && {
      mask: [Uint8Array.from(golden.tensor(name, "mask").data)],
      strength: args["strength"] as number,
    }),
  };
}
