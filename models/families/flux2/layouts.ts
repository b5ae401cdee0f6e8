/**
 * Names that other programs have for the modules of the FLUX.2 transformer.
 *
 * Source: the conversion table of diffusers (`convert_flux2_transformer_checkpoint_to_diffusers`), read against the
 * module names of Black Forest Labs' own code.
 */
import type { Layout, LayoutEntry } from "../../layouts.ts";

/** The names of Black Forest Labs, which ComfyUI, GGUF files and most trainers keep. */
export const ORIGINAL_FLUX2: Layout = {
  name: "original FLUX.2",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    entry("img_in", "x_embedder"),
    entry("txt_in", "context_embedder"),
    ...[["time_in", "timestep_embedder"], ["guidance_in", "guidance_embedder"]].flatMap((
      [theirs, ours],
    ) => [
      entry(`${theirs}.in_layer`, `time_guidance_embed.${ours}.linear_1`),
      entry(`${theirs}.out_layer`, `time_guidance_embed.${ours}.linear_2`),
    ]),
    ...["double_stream_modulation_img", "double_stream_modulation_txt", "single_stream_modulation"]
      .map((name) => entry(`${name}.lin`, `${name}.linear`)),
    ...stream("img", "to_qkv", ["to_q", "to_k", "to_v"], ["norm_q", "norm_k"], "to_out.0", "ff"),
    ...stream(
      "txt",
      "to_added_qkv",
      ["add_q_proj", "add_k_proj", "add_v_proj"],
      ["norm_added_q", "norm_added_k"],
      "to_add_out",
      "ff_context",
    ),
    entry("single_blocks.*.linear1", "single_transformer_blocks.*.attn.to_qkv_mlp_proj"),
    entry("single_blocks.*.linear2", "single_transformer_blocks.*.attn.to_out"),
    ...norms("single_blocks.*.norm", "single_transformer_blocks.*.attn", ["norm_q", "norm_k"]),
    // There the shift comes first.
    { theirs: "final_layer.adaLN_modulation.1", ours: ["norm_out.linear"], swapsHalves: true },
    entry("final_layer.linear", "proj_out"),
  ],
};

/** One stream of the double blocks. */
function stream(
  theirs: string,
  joined: string,
  projections: readonly string[],
  normNames: readonly [query: string, key: string],
  output: string,
  feedForward: string,
): LayoutEntry[] {
  const [block, ours] = [`double_blocks.*.${theirs}`, "transformer_blocks.*"];
  return [
    // The second name is the one of diffusers with joined projections, for which it saves LoKr.
    ...[`${block}_attn.qkv`, `${ours}.attn.${joined}`].map((joinedName) => ({
      theirs: joinedName,
      ours: projections.map((name) => `${ours}.attn.${name}`),
    })),
    ...norms(`${block}_attn.norm`, `${ours}.attn`, normNames),
    entry(`${block}_attn.proj`, `${ours}.attn.${output}`),
    entry(`${block}_mlp.0`, `${ours}.${feedForward}.linear_in`),
    entry(`${block}_mlp.2`, `${ours}.${feedForward}.linear_out`),
  ];
}

/** Their parameter is called `scale`. */
function norms(
  theirs: string,
  ours: string,
  [query, key]: readonly [query: string, key: string],
): LayoutEntry[] {
  return [
    entry(`${theirs}.query_norm.scale`, `${ours}.${query}.weight`),
    entry(`${theirs}.key_norm.scale`, `${ours}.${key}.weight`),
  ];
}

function entry(theirs: string, ours: string): LayoutEntry {
  return { theirs, ours: [ours] };
}
