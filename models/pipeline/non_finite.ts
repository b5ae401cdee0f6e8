/** What to say when a stage gives NaN or Inf, which a file could only show as a black image. */
import type { Weights } from "../../runtime/mod.ts";
import type { PipelineRequest } from "./types.ts";

/** Guidance that no model is used with; beyond it, the values themselves overflow. */
const HIGH_GUIDANCE = 100;

const SCALES = [
  ...["guidanceScale", "guidanceScale2", "imageGuidanceScale", "trueCfgScale"] as const,
  ...["modalityScale", "stgScale", "skipLayerGuidanceScale"] as const,
  ...["audioGuidanceScale", "audioModalityScale", "audioStgScale"] as const,
];

/** NaN or Inf came out where products round their factors to int8. */
export class OverflowError extends Error {
  override readonly name = "OverflowError";

  constructor() {
    super(
      "Cannot finish: the transformer gave NaN or Inf with factors rounded to int8; " +
        "ask for a quality below high",
    );
  }
}

export function isFinite(values: Float32Array): boolean {
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) return false;
  }
  return true;
}

export function explainNonFinite(
  stage: string,
  parts: readonly Weights[],
  request: PipelineRequest,
): Error {
  const problem = `Cannot finish: ${stage} gave NaN or Inf`;
  for (const weights of parts) {
    const name = weights.findNonFinite();
    if (name !== undefined) {
      return new Error(
        `${problem}, because tensor "${name}" in "${weights.path}" holds NaN or infinity; ` +
          "the file is damaged, fetch it again",
      );
    }
  }
  const high = SCALES.find((name) => (request[name] ?? 0) > HIGH_GUIDANCE);
  if (high) {
    return new RangeError(`${problem}, because ${high} is ${request[high]}; ask for less`);
  }
  return new Error(
    `${problem}, although all weights are; lower the strength of LoRAs, try another seed, and run "denoise doctor" to check the GPU`,
  );
}
