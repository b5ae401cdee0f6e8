/** A model that only exists in tests; apart, so that a fake worker loads next to nothing. */
import type { ModelInfo } from "../../engine/types.ts";
import { FLOW_CHOICES } from "../../models/schedulers/noise_levels.ts";

/** What the fake model says of itself; parts can be replaced. */
export const FAKE_INFO: ModelInfo = {
  modelPath: "fake/gradients",
  className: "GradientPipeline",
  defaultTask: "T2V",
  supportedTasks: ["T2V", "T2I"],
  weightBytes: 1,
  precisions: { transformer: "f16", vae: "f32", textEncoder: "bf16" },
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
  sampling: FLOW_CHOICES,
  maxSequenceLength: 512,
  optionalParts: [],
  controlNets: [],
  loraTargets: ["transformer", "transformer_2"],
};
