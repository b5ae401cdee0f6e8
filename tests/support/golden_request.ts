/** Requests as calls of the reference's pipelines were made. */
import type { PipelineRequest, SamplerName } from "../../models/mod.ts";
import type { GoldenCall } from "./golden.ts";

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
