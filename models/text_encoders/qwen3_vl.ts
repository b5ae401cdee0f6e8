/**
 * Qwen3-VL's language model as text encoder, which is Qwen3's with frequencies of its own; `qwen.ts` computes it. A text's
 * positions are the same along all three axes, so that these are one; `seeing_qwen.ts` has those of images.
 * Source: Qwen team 2025, "Qwen3-VL Technical Report"; transformers `Qwen3VLModel`.
 */
import { z } from "zod";
import { isObject, type JsonObject } from "../../hub/json_file.ts";
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, shapeOf } from "../checkpoints/component_format.ts";
import { Stated } from "../checkpoints/stated.ts";
import { qwen3VisionConfig } from "../image_encoders/mmproj_format.ts";
import { QWEN3_VISION_CONFIG } from "../image_encoders/qwen3_vision.ts";
import { isGemma, isQwen3Vl, languageConfig, QWEN3_CONFIG, QWEN3_FORMAT } from "./qwen3.ts";

export const QWEN3_VL_CLASSES = ["Qwen3VLModel", "Qwen3VLForConditionalGeneration"] as const;

/** Base of the rotary frequencies of the published models. */
const ROPE_THETA = 5e6;

/** Pairs of a head that turn with time, row and column, of the published models. */
const MROPE_SECTION = [24, 20, 20];

/** `config.json`: the language model, flat or in `text_config`, and the vision tower where there is one. */
export const QWEN3_VL_CONFIG = z.preprocess((json) => {
  if (!isObject(json)) return json;
  const text = isObject(json["text_config"]) ? json["text_config"] : json;
  return {
    text: { rope_theta: ROPE_THETA, ...text, model_type: "qwen3" },
    vision: json["vision_config"] ?? null,
  };
}, z.object({ text: QWEN3_CONFIG, vision: QWEN3_VISION_CONFIG.nullable() }))
  .transform(({ text, vision }) => ({ ...text, vision }));

export type Qwen3VlConfig = z.output<typeof QWEN3_VL_CONFIG>;

/** The axis whose positions turn each pair of a head: the three take turns, as long as rows and columns have any left. */
export function qwen3Axes({ head_dim }: Qwen3VlConfig): number[] {
  const scale = head_dim / 2 / MROPE_SECTION.reduce((sum, pairs) => sum + pairs, 0);
  return Array.from(
    { length: head_dim / 2 },
    (_, j) => (j < 3 * scale * MROPE_SECTION[j % 3]! ? j % 3 : 0),
  );
}

const SAMPLE = "layers.0.self_attn.q_norm.weight";
const PATCHES = "patch_embed.proj.weight";

/** Qwen3-VL of any size in single files, with its vision tower or without. */
export const QWEN3_VL_FORMAT: ComponentFormat = {
  ...QWEN3_FORMAT,
  name: "a Qwen3-VL text encoder",
  className: QWEN3_VL_CLASSES[0],
  architecture: "qwen3vl",
  namings: [
    { probes: [`model.language_model.${SAMPLE}`, `model.visual.${PATCHES}`] },
    { probes: [`language_model.${SAMPLE}`, `visual.${PATCHES}`] },
    { probes: [`model.${SAMPLE}`, `visual.${PATCHES}`] },
    ...QWEN3_FORMAT.namings,
  ],
  fits: (_, file) => isQwen3Vl(file) && !isGemma(file),
  config,
};

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonObject {
  const has = (name: string) => tensors.find(name) !== undefined;
  const wrapper = ["model.language_model.", "language_model.", "model.", ""]
    .find((prefix) => has(`${prefix}embed_tokens.weight`))!;
  const tower = ["model.visual.", "visual."].find((prefix) => has(prefix + PATCHES));
  const stated = new Stated(tensors, metadata);
  stated.refuseScaledPositions();
  const headDim = shapeOf(tensors, wrapper + SAMPLE, 1)[0]!;
  return {
    ...languageConfig(tensors, wrapper, headDim, stated),
    head_dim: headDim,
    rope_theta: stated.number("rope.freq_base") ?? ROPE_THETA,
    vision_config: tower === undefined ? null : qwen3VisionConfig(tensors, tower),
  };
}
