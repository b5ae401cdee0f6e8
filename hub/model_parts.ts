/** Parts of a model that may lie elsewhere, and the components that they are in folders of models. */
export const PART_COMPONENTS = {
  transformer: "transformer",
  transformer2: "transformer_2",
  imageEncoder: "image_encoder",
  mmproj: "vision_tower",
  textEncoder: "text_encoder",
  textEncoder2: "text_encoder_2",
  vae: "vae",
  tinyDecoder: "tiny_decoder",
  controlnet: "controlnet",
  upscaler: "upscaler",
  frameInterpolator: "frame_interpolator",
  tokenizer: "tokenizer",
  tokenizer2: "tokenizer_2",
} as const;

/** A part of a model. */
export type PartName = keyof typeof PART_COMPONENTS;
