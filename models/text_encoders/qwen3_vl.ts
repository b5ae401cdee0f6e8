/**
 * Qwen3-VL's language model as text encoder, which is Qwen3's with frequencies of its own; `qwen.ts` computes it. A text's
 * positions are the same along all three axes, so that these are one.
 * Source: Qwen team 2025, "Qwen3-VL Technical Report"; transformers `Qwen3VLModel`.
 */
import { z } from "zod";
import { isObject } from "../../hub/json_file.ts";
import type { ComponentFormat } from "../checkpoints/component_format.ts";
import { Stated } from "../checkpoints/stated.ts";
import { isQwen3Vl, QWEN3_CONFIG, QWEN3_FORMAT } from "./qwen3.ts";

export const QWEN3_VL_CLASSES = ["Qwen3VLModel", "Qwen3VLForConditionalGeneration"] as const;

/** Base of the rotary frequencies of the published models. */
const ROPE_THETA = 5e6;

/** `config.json`: the language model, flat or in `text_config`. */
export const QWEN3_VL_CONFIG = z.preprocess((json) => {
  if (!isObject(json)) return json;
  const text = isObject(json["text_config"]) ? json["text_config"] : json;
  return { rope_theta: ROPE_THETA, ...text, model_type: "qwen3" };
}, QWEN3_CONFIG);

/** Qwen3-VL of any size in single files, with its vision tower or without. */
export const QWEN3_VL_FORMAT: ComponentFormat = {
  ...QWEN3_FORMAT,
  name: "a Qwen3-VL text encoder",
  className: QWEN3_VL_CLASSES[0],
  architecture: "qwen3vl",
  fits: (_, file) => isQwen3Vl(file),
  config: (tensors, metadata) => ({
    ...QWEN3_FORMAT.config(tensors, metadata),
    rope_theta: new Stated(tensors, metadata).number("rope.freq_base") ?? ROPE_THETA,
  }),
};
