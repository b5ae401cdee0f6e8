/**
 * Images with Ovis-Image: from text, from an input image by strength, and with a mask.
 * Source: Ovis team 2025, "Ovis-Image Technical Report"; diffusers `OvisImagePipeline` and `OvisImageTransformer2DModel`;
 * input images are encoded as in `FluxImg2ImgPipeline`.
 */
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { qwen3ChatPrompt } from "../../tokenizers/mod.ts";
import { fluxImageShape, traceFluxImages } from "../flux1/images.ts";
import { OVIS_IMAGE_PARTS, ovisImageInfo } from "./config.ts";
import { OVIS_IMAGE_FILES } from "./layouts.ts";
import { DIFFUSERS_OVIS_IMAGE, ORIGINAL_OVIS_IMAGE } from "./names.ts";
import { ovisImageContext, ovisImagePlaces, ovisImageTables } from "./transformer.ts";

const INSTRUCTION =
  "Describe the image by detailing the color, quantity, text, shape, size, texture, spatial relationships of the objects and background: ";
/** Tokens of the template and the instruction before a prompt, whose states are cut off. */
const TEMPLATE_TOKENS = 28;

export const OVIS_IMAGE = defineFamily({
  classNames: ["OvisImagePipeline"],
  files: OVIS_IMAGE_FILES,
  parts: OVIS_IMAGE_PARTS,
  lora: {
    transformer: { family: "Ovis-Image", layouts: [ORIGINAL_OVIS_IMAGE, DIFFUSERS_OVIS_IMAGE] },
    textEncoder: "Qwen3",
  },

  info: ovisImageInfo,

  prompts: (request) =>
    guidedPrompts(request)
      .map((text) => qwen3ChatPrompt(INSTRUCTION + text, { hasThinkBlock: true })),

  templateTokens: () => TEMPLATE_TOKENS,

  shapeOf: fluxImageShape,

  trace(session, parts, shape) {
    const { textEncoder, tokenizer, transformer } = parts;
    const { config, weights: { root: weights } } = transformer;
    const rows = TEMPLATE_TOKENS + shape.textTokens;
    const qwen3 = qwenTextEncoder(
      ...[textEncoder, tokenizer.padId, [textEncoder.config.num_hidden_layers]] as const,
      { zeroesPadding: true },
    );
    return traceFluxImages(session, parts, shape, {
      encoder: qwen3,
      rows: [TEMPLATE_TOKENS, rows],
      context: (states) => ovisImageContext(config, weights, states),
      tables: (embedded) => ovisImageTables(config, weights, embedded),
      kind: "swiglu",
      places: ovisImagePlaces,
      guidance: ({ guidanceScale }, prompts) => classifierFree(guidanceScale, prompts),
    });
  },
});
