/**
 * Names that other programs have for the modules of the Wan transformer.
 *
 * Source: the conversion tables of diffusers (`convert_wan_transformer_to_diffusers`), read against the module names of
 * the Wan team's own code.
 */
import type { Layout, LayoutEntry } from "../../layouts.ts";

const ATTENTION: readonly (readonly [theirs: string, ours: string])[] = [
  ["q", "to_q"],
  ["k", "to_k"],
  ["v", "to_v"],
  ["o", "to_out.0"],
  ["norm_q", "norm_q"],
  ["norm_k", "norm_k"],
  ["k_img", "add_k_proj"],
  ["v_img", "add_v_proj"],
  ["norm_k_img", "norm_added_k"],
];

/** The names of the Wan team, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_WAN: Layout = {
  name: "original Wan",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    ...[["self_attn", "attn1"], ["cross_attn", "attn2"]].flatMap(([theirs, ours]) =>
      ATTENTION.map(([a, b]) => entry(`blocks.*.${theirs}.${a}`, `blocks.*.${ours}.${b}`))
    ),
    // The two norms change places: the one before cross-attention is their third and diffusers' second.
    entry("blocks.*.norm3", "blocks.*.norm2"),
    entry("blocks.*.ffn.0", "blocks.*.ffn.net.0.proj"),
    entry("blocks.*.ffn.2", "blocks.*.ffn.net.2"),
    entry("blocks.*.modulation", "blocks.*.scale_shift_table"),
    entry("text_embedding.0", "condition_embedder.text_embedder.linear_1"),
    entry("text_embedding.2", "condition_embedder.text_embedder.linear_2"),
    entry("time_embedding.0", "condition_embedder.time_embedder.linear_1"),
    entry("time_embedding.2", "condition_embedder.time_embedder.linear_2"),
    entry("time_projection.1", "condition_embedder.time_proj"),
    entry("img_emb.proj.0", "condition_embedder.image_embedder.norm1"),
    entry("img_emb.proj.1", "condition_embedder.image_embedder.ff.net.0.proj"),
    entry("img_emb.proj.3", "condition_embedder.image_embedder.ff.net.2"),
    entry("img_emb.proj.4", "condition_embedder.image_embedder.norm2"),
    entry("head.head", "proj_out"),
    entry("head.modulation", "scale_shift_table"),
    entry("patch_embedding", "patch_embedding"),
  ],
};

function entry(theirs: string, ours: string): LayoutEntry {
  return { theirs, ours: [ours] };
}
