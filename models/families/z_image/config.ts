/** What the files of a Z-Image pipeline may say. Defaults are those of the diffusers classes. */
import { z } from "zod";

/** Side of a patch, in latents, of which checkpoints may have several sizes. */
export const PATCH_SIDE = 2;
/** Its extent in time; a picture has one frame. */
const PATCH_FRAMES = 1;
/** Axes of a token's position: place in the text, row, column. */
const AXES = 3;
/** Far more than any model has. */
const MAX_LAYERS = 1024;
/** Most channels of the timestep embedding. */
const MAX_TIMESTEP_CHANNELS = 256;

/** `transformer/config.json` of `ZImageTransformer2DModel`. */
export const Z_IMAGE_TRANSFORMER_CONFIG = z.object({
  _class_name: z.literal("ZImageTransformer2DModel").default("ZImageTransformer2DModel"),
  all_patch_size: z.array(z.int().positive()).default([PATCH_SIDE]),
  all_f_patch_size: z.array(z.int().positive()).default([PATCH_FRAMES]),
  in_channels: z.int().positive().default(16),
  dim: z.int().positive().default(3840),
  n_layers: z.int().positive().max(MAX_LAYERS).default(30),
  n_refiner_layers: z.int().nonnegative().max(MAX_LAYERS).default(2),
  n_heads: z.int().positive().default(30),
  n_kv_heads: z.int().positive().nullish(),
  norm_eps: z.number().positive().max(1).default(1e-5),
  qk_norm: z.literal(true, "models without norms of queries and keys are not supported").default(
    true,
  ),
  cap_feat_dim: z.int().positive().default(2560),
  siglip_feat_dim: z.null("Z-Image-Omni (siglip_feat_dim) is not supported").default(null),
  rope_theta: z.number().positive().default(256),
  t_scale: z.number().positive().default(1000),
  axes_dims: z.array(z.int().positive().multipleOf(2)).length(AXES).default([32, 48, 48]),
  axes_lens: z.array(z.int().positive()).length(AXES).default([1024, 512, 512]),
}).superRefine((config, context) => {
  const refuse = (key: string, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  const { dim, n_heads, n_kv_heads, axes_dims, all_patch_size, all_f_patch_size } = config;
  const headDim = dim / n_heads;
  if (headDim % 4 !== 0 || headDim > 128) {
    refuse("n_heads", `dim = ${dim} must give heads of a multiple of 4, up to 128`);
  }
  if ((n_kv_heads ?? n_heads) !== n_heads) refuse("n_kv_heads", `it must be n_heads = ${n_heads}`);
  if (axes_dims.reduce((sum, size) => sum + size, 0) !== headDim) {
    refuse("axes_dims", `its sum must be dim / n_heads = ${headDim}`);
  }
  const at = all_patch_size.indexOf(PATCH_SIDE);
  if (at === -1 || all_f_patch_size[at] !== PATCH_FRAMES) {
    refuse(
      "all_patch_size",
      `it must have ${PATCH_SIDE}, with ${PATCH_FRAMES} in all_f_patch_size`,
    );
  }
});

/** Parsed {@linkcode Z_IMAGE_TRANSFORMER_CONFIG}. */
export type ZImageTransformerConfig = z.output<typeof Z_IMAGE_TRANSFORMER_CONFIG>;

/** How modules for the patches that pictures are cut into are called. */
export const PATCH_KEY = `${PATCH_SIDE}-${PATCH_FRAMES}`;

/** Latents that a token holds. */
export function patchFeatures({ in_channels }: ZImageTransformerConfig): number {
  return PATCH_FRAMES * PATCH_SIDE * PATCH_SIDE * in_channels;
}

/** Channels inside of the feed-forward. */
export function hiddenFeatures({ dim }: ZImageTransformerConfig): number {
  return Math.trunc(dim / 3 * 8);
}

/** Channels of the timestep embedding that the blocks take. */
export function timestepChannels({ dim }: ZImageTransformerConfig): number {
  return Math.min(dim, MAX_TIMESTEP_CHANNELS);
}
