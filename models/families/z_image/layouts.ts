/**
 * Names that other programs have for the modules of the Z-Image transformer.
 *
 * Source: the conversion table of diffusers (`convert_z_image_transformer_checkpoint_to_diffusers`).
 */
import type { Layout } from "../../layouts.ts";
import { PATCH_KEY } from "./config.ts";

const STACKS = ["layers", "noise_refiner", "context_refiner"];

/** The names of the Z-Image team, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_Z_IMAGE: Layout = {
  name: "original Z-Image",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    ...STACKS.flatMap((stack) => {
      const attention = `${stack}.*.attention`;
      return [
        {
          theirs: `${attention}.qkv`,
          ours: ["to_q", "to_k", "to_v"].map((name) => `${attention}.${name}`),
        },
        { theirs: `${attention}.out`, ours: [`${attention}.to_out.0`] },
        { theirs: `${attention}.q_norm`, ours: [`${attention}.norm_q`] },
        { theirs: `${attention}.k_norm`, ours: [`${attention}.norm_k`] },
      ];
    }),
    { theirs: "x_embedder", ours: [`all_x_embedder.${PATCH_KEY}`] },
    ...["linear", "adaLN_modulation.1"].map((name) => ({
      theirs: `final_layer.${name}`,
      ours: [`all_final_layer.${PATCH_KEY}.${name}`],
    })),
  ],
};
