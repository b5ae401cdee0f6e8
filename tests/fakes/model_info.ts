/** A model that only exists in tests; apart, so that a fake worker loads next to nothing. */
import type { ModelInfo } from "../../engine/types.ts";

/** What the fake model says of itself; parts can be replaced. */
export const FAKE_INFO: ModelInfo = {
  modelPath: "fake/gradients",
  pipelineName: "Gradients",
  pipelineClass: "GradientPipeline",
  taskType: "T2V",
  supportedTaskTypes: ["T2V", "T2I"],
  ditPrecision: "f16",
  vaePrecision: "f32",
  textEncoderPrecision: "bf16",
  defaults: {
    width: 64,
    height: 48,
    numInferenceSteps: 4,
    guidanceScale: 3.5,
    numFrames: 9,
    fps: 8,
    negativePrompt: "",
  },
  taskDefaults: {},
  sizeMultiple: 16,
  frameMultiple: 4,
  maxFrames: 81,
  maxImages: 1,
  maxEditImages: 1,
  maxPixels: 256 * 256,
  maxSteps: 50,
  optionalSettings: [],
  maxSequenceLength: 512,
  optionalParts: [],
  loraTargets: ["transformer", "transformer_2"],
};
