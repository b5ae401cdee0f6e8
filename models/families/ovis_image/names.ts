/** What other programs call Ovis-Image's modules. Source: diffusers' `convert_ovis_image_to_diffusers.py`. */
import { type Layout, renamed } from "../../layouts.ts";
import { FLUX1_HEAD_NORMS, ORIGINAL_FLUX1 } from "../flux1/layouts.ts";

const [DOUBLE, SINGLE] = ["transformer_blocks.*", "single_transformer_blocks.*"];
const STREAMS = [["img", "ff"], ["txt", "ff_context"]] as const;

/** The names of diffusers, in which the two layers of a gated feed-forward are one. */
export const DIFFUSERS_OVIS_IMAGE: Layout = {
  name: "diffusers",
  prefixes: [],
  entries: STREAMS.map(([, name]) => ({
    theirs: `${DOUBLE}.${name}.net.0.proj`,
    ours: [`${DOUBLE}.${name}.net.0.up`, `${DOUBLE}.${name}.net.0.gate`],
  })),
};

/** The names of AIDC-AI, those of FLUX.1 in most, which ComfyUI and GGUF files keep. */
export const ORIGINAL_OVIS_IMAGE: Layout = {
  name: "original Ovis-Image",
  prefixes: ORIGINAL_FLUX1.prefixes,
  entries: [
    renamed("time_in.in_layer", "timestep_embedder.linear_1"),
    renamed("time_in.out_layer", "timestep_embedder.linear_2"),
    ...["semantic_txt", "txt"].flatMap((text) => [
      renamed(`${text}_norm`, "context_embedder_norm"),
      renamed(`${text}_norm.scale`, "context_embedder_norm.weight"),
      renamed(`${text}_in`, "context_embedder"),
    ]),
    ...STREAMS.flatMap(([stream, name]) => [
      renamed(`double_blocks.*.${stream}_mlp.gate_proj`, `${DOUBLE}.${name}.net.0.gate`),
      renamed(`double_blocks.*.${stream}_mlp.up_proj`, `${DOUBLE}.${name}.net.0.up`),
      renamed(`double_blocks.*.${stream}_mlp.down_proj`, `${DOUBLE}.${name}.net.2`),
    ]),
    {
      theirs: "single_blocks.*.linear1",
      ours: [
        ...["to_q", "to_k", "to_v"].map((name) => `${SINGLE}.attn.${name}`),
        `${SINGLE}.proj_mlp`,
      ],
      shares: [1, 1, 1, 8],
    },
    ...FLUX1_HEAD_NORMS,
    ...ORIGINAL_FLUX1.entries,
  ],
};
