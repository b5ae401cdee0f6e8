/** The names of LTX-2's authors, which ComfyUI, GGUF files and trainers keep. Source: diffusers `convert_ltx2_transformer_to_diffusers`; stable-diffusion.cpp `ltxv.hpp`. */
import { type Layout, type LayoutEntry, renamed, renamedIn } from "../../layouts.ts";

const EMBEDDER = ["emb.timestep_embedder.linear_1", "emb.timestep_embedder.linear_2", "linear"];
const ATTENTIONS = [
  ...["attn1", "attn2", "audio_attn1", "audio_attn2"],
  ...["audio_to_video_attn", "video_to_audio_attn"],
];
const NORMS = [["q_norm", "norm_q"], ["k_norm", "norm_k"]] as const;

export const ORIGINAL_LTX2: Layout = {
  name: "original LTX-2",
  prefixes: ["model.diffusion_model.", "diffusion_model.", "model."],
  entries: [
    renamed("patchify_proj", "proj_in"),
    renamed("audio_patchify_proj", "audio_proj_in"),
    ...[
      ["adaln_single", "time_embed"],
      ["audio_adaln_single", "audio_time_embed"],
      ["prompt_adaln_single", "prompt_adaln"],
      ["audio_prompt_adaln_single", "audio_prompt_adaln"],
      ["av_ca_video_scale_shift_adaln_single", "av_cross_attn_video_scale_shift"],
      ["av_ca_a2v_gate_adaln_single", "av_cross_attn_video_a2v_gate"],
      ["av_ca_audio_scale_shift_adaln_single", "av_cross_attn_audio_scale_shift"],
      ["av_ca_v2a_gate_adaln_single", "av_cross_attn_audio_v2a_gate"],
    ].flatMap(([theirs, ours]) =>
      EMBEDDER.map((name) => renamed(`${theirs}.${name}`, `${ours}.${name}`))
    ),
    ...["video", "audio"].map((modality) =>
      renamed(
        `transformer_blocks.*.scale_shift_table_a2v_ca_${modality}`,
        `transformer_blocks.*.${modality}_a2v_cross_attn_scale_shift_table`,
      )
    ),
    ...ATTENTIONS.flatMap((name) => attentionNorms(`transformer_blocks.*.${name}`)),
  ],
};

function attentionNorms(place: string, ours = place): LayoutEntry[] {
  return renamedIn(NORMS, place, ours);
}

/** Linear layers of a connector's block. */
const BLOCK = [
  ...["to_q", "to_k", "to_v", "to_out.0", "to_gate_logits"].map((name) => `attn1.${name}`),
  ...["ff.net.0.proj", "ff.net.2"],
];

/** In whole checkpoints connectors lie among the transformer's tensors, which have a prefix, and the projections beside these. */
export function connectorLayout(prefix: string): Layout {
  return {
    name: "original LTX-2 connectors",
    prefixes: [],
    entries: [
      renamed("text_embedding_projection.aggregate_embed", "text_proj_in"),
      ...["video", "audio"].flatMap((modality) => {
        const theirs = `${prefix}${modality}_embeddings_connector`;
        const blocks = `${theirs}.transformer_1d_blocks.*`;
        const ours = `${modality}_connector.transformer_blocks.*`;
        return [
          renamed(
            `text_embedding_projection.${modality}_aggregate_embed`,
            `${modality}_text_proj_in`,
          ),
          renamed(`${theirs}.learnable_registers`, `${modality}_connector.learnable_registers`),
          ...BLOCK.map((name) => renamed(`${blocks}.${name}`, `${ours}.${name}`)),
          ...attentionNorms(`${blocks}.attn1`, `${ours}.attn1`),
        ];
      }),
    ],
  };
}
