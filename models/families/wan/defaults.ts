import type {
  PipelineDefaults,
  PipelineInfo,
  PipelineTask,
  PipelineTaskDefaults,
} from "../../pipeline.ts";
import { precisionsOf } from "../family_components.ts";
import type { WanComponents } from "./components.ts";

interface WanDefaults {
  readonly defaults: PipelineDefaults;
  readonly taskDefaults: Readonly<Partial<Record<PipelineTask, PipelineTaskDefaults>>>;
  /** Whether a clip that goes on from a picture ends, on request, with the picture changed. */
  readonly edits: boolean;
}

/** Sizes and settings that checkpoints of a width were made for, largest first. */
const BY_DIM: readonly (WanDefaults & { readonly minDim: number })[] = [
  // Wan 2.1 14B
  { minDim: 5120, ...video(1280, 720, 81, 16) },
  // Wan 2.2 TI2V 5B
  { minDim: 3072, ...video(1280, 704, 121, 24) },
  // Wan 2.1 1.3B
  { minDim: 1536, ...video(832, 480, 81, 16) },
  // Small models that this project trains.
  {
    minDim: 0,
    defaults: settings(96, 96, 1, 8, 20, 3.5),
    taskDefaults: {
      T2V: { numFrames: 9 },
      I2V: { numFrames: 9 },
      TI2I: { guidanceScale: 1.5 },
      V2V: { strength: 0.8 },
    },
    edits: true,
  },
];

/** Those of a published checkpoint; the strength is the reference's. */
function video(width: number, height: number, numFrames: number, fps: number): WanDefaults {
  return {
    defaults: settings(width, height, numFrames, fps, 50, 5),
    taskDefaults: { V2V: { strength: 0.8 } },
    edits: false,
  };
}

function settings(
  width: number,
  height: number,
  numFrames: number,
  fps: number,
  numInferenceSteps: number,
  guidanceScale: number,
): PipelineDefaults {
  return { width, height, numFrames, fps, numInferenceSteps, guidanceScale, negativePrompt: "" };
}

/** What the pipeline says of itself. */
export function wanInfo(
  components: WanComponents,
  className: string,
  adaptable: PipelineInfo["adaptable"],
): PipelineInfo {
  const { pipeline, transformer, vae } = components;
  const { num_attention_heads, attention_head_dim, patch_size, rope_max_seq_len } =
    transformer.config;
  const { scale_factor_spatial: spatial, scale_factor_temporal: temporal } = vae.config;
  const { defaults, taskDefaults, edits } = BY_DIM.find(({ minDim }) =>
    num_attention_heads * attention_head_dim >= minDim
  )!;
  const tasks: PipelineTask[] = ["T2I", "T2V"];
  if (pipeline.expand_timesteps) tasks.push("I2V");
  if (pipeline.expand_timesteps && edits) tasks.push("TI2I");
  tasks.push("V2V");
  return {
    className,
    supportedTasks: tasks,
    defaultTask: defaults.numFrames === 1 ? "T2I" : "T2V",
    precisions: precisionsOf(components),
    defaults,
    taskDefaults: Object.fromEntries(
      Object.entries(taskDefaults).filter(([task]) => tasks.includes(task as PipelineTask)),
    ),
    sizeMultiple: spatial * Math.max(patch_size[1], patch_size[2]),
    frameMultiple: temporal,
    maxFrames: 1 + temporal * (rope_max_seq_len - 1),
    maxPictures: pipeline.expand_timesteps ? 1 : 0,
    adaptable,
  };
}
