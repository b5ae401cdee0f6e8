/** Which model family a LoRA is of, by what only that family's modules are called. */
import type { TensorEntry } from "../../../runtime/mod.ts";

/** Names with underscores for dots, so that every dialect reads the same. */
interface Sign {
  readonly family: string;
  readonly has: readonly RegExp[];
  readonly lacks?: readonly RegExp[];
}

const UNET =
  /(down_blocks_\d+_attentions|up_blocks_\d+_attentions|input_blocks_\d|mid_block_att|middle_block_1)/;
const SDXL =
  /(lora_te2_|add_embedding|(down_blocks_2|mid_block)_attentions_\d_transformer_blocks_[1-9]|input_blocks_[78]_1_transformer_blocks_[2-9]|middle_block_1_transformer_blocks_[1-9])/;
const SINGLE = /single_(transformer_)?blocks_\d/;

const SIGNS: readonly Sign[] = [
  { family: "SDXL", has: [UNET, SDXL] },
  { family: "SD 1 or SD 2", has: [UNET] },
  {
    family: "Krea 2",
    has: [
      /(txtfusion_|text_fusion_|^blocks_\d+_(attn_(w[qkvo]|gate)|mlp_(gate|up|down))|transformer_blocks_\d+_(attn_to_gate|ff_(gate|up|down)))/,
    ],
  },
  {
    family: "Anima",
    has: [
      /(llm_adapter_|blocks_\d+_((self|cross)_attn_(q|k|v|output)_proj|adaln_modulation_|mlp_layer[12]|norm[123]_linear_[12]))/,
    ],
  },
  { family: "HiDream", has: [/double_stream_blocks_\d|single_stream_blocks_\d/] },
  {
    family: "HunyuanVideo 1.5",
    has: [
      // With the names of diffusers those of Stable Diffusion 3, which has fewer blocks.
      /(byt5_in_|cond_type_embed|context_embedder_2_|double_blocks_\d+_(img|txt)_attn_[qkv]_lora|transformer_blocks_(3[89]|[45]\d)_ff(_context)?_net)/,
    ],
  },
  {
    family: "HunyuanVideo",
    has: [
      /(individual_token_refiner|token_refiner_refiner_blocks|img_mlp_fc[12]|double_blocks_\d+_img_mod_linear|single_blocks_\d+_modulation_linear)/,
    ],
  },
  {
    family: "FLUX.3",
    has: [
      /mode_blocks_|single_blocks_\d+_([qkv]_proj|attn_out|mlp_in|mlp_out)|single_transformer_blocks_\d+_ff_linear/,
    ],
  },
  { family: "Ovis-Image", has: [/double_blocks_\d+_(img|txt)_mlp_(gate|up|down)_proj/] },
  { family: "LongCat-Image", has: [/(^|_)time_embed_timestep_embedder/], lacks: [UNET] },
  {
    family: "AuraFlow",
    has: [
      /(double|single)_layers_\d+_(attn_w[12][qkvo]|mlp[XC]?_c_|mod[XC])|joint_transformer_blocks_\d/,
    ],
  },
  { family: "Chroma", has: [/distilled_guidance_layer/] },
  {
    family: "FLUX.2",
    has: [
      /(to_qkv_mlp_proj|single_stream_modulation|double_stream_modulation|ff_linear_in|ff_context_linear_in)/,
    ],
  },
  {
    family: "FLUX.1",
    has: [
      /(single_transformer_blocks_\d+_(proj_mlp|proj_out|norm_linear)|(double|single)_blocks_\d+_processor_|(img|txt)_mod_lin|single_blocks_\d+_modulation_lin)/,
    ],
  },
  {
    family: "FLUX.1 or FLUX.2",
    has: [/double_blocks_\d+_(img|txt)_(attn|mlp)|single_blocks_\d+_linear[12]/],
  },
  {
    family: "Qwen-Image-2.1",
    has: [/(transformer_blocks_\d+_img_mlp_(gate_layer|proj|out)|txt_in_(in|out)_layer)/],
  },
  { family: "Qwen-Image", has: [/transformer_blocks_\d+_((img|txt)_(mod|mlp)_)/] },
  { family: "SD 3", has: [/joint_blocks_\d/] },
  {
    family: "SD 3",
    has: [
      /transformer_blocks_\d+_(attn2?_add_[qkv]_proj|ff_context)/,
      /transformer_blocks_\d+_ff_net/,
    ],
    lacks: [SINGLE],
  },
  { family: "FLUX.1", has: [/single_transformer_blocks_\d+_attn_to_[qkv]_/] },
  { family: "FLUX.1 or FLUX.2", has: [/transformer_blocks_\d+_attn_add_[qkv]_proj/, SINGLE] },
  {
    family: "Wan",
    has: [/blocks_\d+_(self_attn_[qkvo]|cross_attn_[qkvo]|ffn_\d|ffn_net|attn[12]_to_)/],
    lacks: [/transformer_blocks_\d/],
  },
  { family: "ERNIE-Image", has: [/layers_\d+_(self_attention_to_|mlp_linear_fc2)/] },
  { family: "Ideogram 4", has: [/layers_\d+_(attention_o_lora|adaln_modulation)/] },
  {
    family: "Lumina 2",
    has: [
      /(layers_\d+_(attn_to_|feed_forward_linear_|norm1_linear|adaLN_modulation_1)|time_caption_embed)/,
    ],
  },
  { family: "Z-Image", has: [/layers_\d+_(attention_to_|adaLN_modulation_0)/] },
  { family: "Z-Image or Lumina 2", has: [/layers_\d+_(attention_(qkv|out)|feed_forward_w[123])/] },
  {
    family: "LTX-2",
    has: [/transformer_blocks_\d+_(audio_(attn[12]|ff|to_video_attn)|video_to_audio_attn)_/],
  },
  {
    family: "LTX-Video or LTX-2",
    has: [
      /transformer_blocks_\d+_attn[12]_to_/,
      /(patchify_proj|adaln_single|caption_projection)/,
    ],
    lacks: [UNET],
  },
  {
    family: "LTX-Video or LTX-2 or PixArt",
    has: [/transformer_blocks_\d+_attn2_to_/],
    lacks: [UNET],
  },
  { family: "CogVideoX", has: [/transformer_blocks_\d+_attn1_to_/], lacks: [UNET] },
  { family: "a CLIP text encoder", has: [/text_model_encoder_layers_\d/] },
  {
    family: "a language model",
    has: [/layers_\d+_(self_attn_[qkvo]_proj|mlp_(gate|up|down)_proj)/],
  },
];

/** What stands before names; without it `transformer.blocks` would be `transformer_blocks`. */
const PREFIX =
  /^(base_model\.model\.)?(transformer(_2)?\.|unet\.|(model\.)?diffusion_model\.|lora_unet_|lora_transformer_|lycoris_)/;

/** Columns of what cross-attention reads, by UNet. */
const CONTEXT: Readonly<Record<number, string>> = { 768: "SD 1", 1024: "SD 2", 2048: "SDXL" };

/** Columns of what the layers of a transformer read. */
const WIDTH: Readonly<Record<number, string>> = { 2304: "Lumina 2", 3840: "Z-Image" };

export function familyOf(tensors: ReadonlyMap<string, TensorEntry>): string | undefined {
  const flat = [...tensors.keys()].map((key) => key.replace(PREFIX, "").replaceAll(".", "_"));
  const some = (pattern: RegExp) => flat.some((key) => pattern.test(key));
  const found = SIGNS.find(({ has, lacks = [] }) => has.every(some) && !lacks.some(some))?.family;
  const [layer, families] = found === "Z-Image or Lumina 2"
    ? [/(attention[._]qkv|feed_forward[._]w[13])/, WIDTH]
    : found === "SD 1 or SD 2" || found === "SDXL"
    ? [/attn2[._]to_k/, CONTEXT]
    : [];
  for (const [key, { shape }] of layer ? tensors : []) {
    if (!layer!.test(key) || !/(lora_down|lora_A|lora\.down|hada_w1_b)/.test(key)) continue;
    const family = families![shape[1] ?? 0];
    if (family) return family;
  }
  return found;
}

/** Whether two names of families may mean the same: `FLUX.2` is one of `FLUX.1 or FLUX.2`. */
export function mayBeFamily(found: string, family: string): boolean {
  const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
  const families = family.split(" or ").map(plain);
  return found.split(" or ").map(plain)
    .some((a) => families.some((b) => a.startsWith(b) || b.startsWith(a)));
}
