/** Names of Ideogram 4's modules. Source: diffusers' `_convert_non_diffusers_ideogram4_lora_to_diffusers`. */
import type { TensorSource } from "../../../runtime/mod.ts";
import { type Layout, renamed } from "../../layouts.ts";

/** Ideogram's names, which ComfyUI, GGUF files and trainers keep. */
export const ORIGINAL_IDEOGRAM4: Layout = {
  name: "original Ideogram 4",
  prefixes: [
    ...["model.diffusion_model.", "diffusion_model.", "conditional_transformer."],
    ...["unconditional_transformer.", "model."],
  ],
  entries: [
    {
      theirs: "layers.*.attention.qkv",
      ours: ["to_q", "to_k", "to_v"].map((name) => `layers.*.attention.${name}`),
    },
    renamed("layers.*.attention.o", "layers.*.attention.to_out.0"),
  ],
};

export function hasOriginalNames(tensors: TensorSource): boolean {
  return tensors.find("layers.0.attention.qkv.weight") !== undefined;
}
