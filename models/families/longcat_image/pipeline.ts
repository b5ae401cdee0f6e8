/**
 * Images with LongCat-Image: from text, from an input image by strength, and with a mask; edits.
 * Source: Meituan LongCat team 2025, "LongCat-Image Technical Report"; diffusers `LongCatImagePipeline` and
 * `LongCatImageEditPipeline`; input images are encoded as in `FluxImg2ImgPipeline`.
 */
import { elementwise, slice } from "../../../runtime/mod.ts";
import { squares, sumOfRows } from "../../blocks/sums.ts";
import { tokensOf } from "../../image_encoders/qwen2_5_vision.ts";
import { defineFamily } from "../../pipeline/family.ts";
import {
  type CombinedGuidance,
  guidedOutput,
  guidedPrompts,
  rescaledGuidance,
} from "../../pipeline/guidance.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { flux1Context } from "../flux1/blocks.ts";
import { fluxImageShape, traceFluxImages } from "../flux1/images.ts";
import { EDIT_CLASS, LONGCAT_IMAGE_PARTS, longCatImageInfo } from "./config.ts";
import { editShape, imageTokens, traceEdit } from "./edit.ts";
import { LONGCAT_IMAGE_FILES, ORIGINAL_LONGCAT_IMAGE } from "./layouts.ts";
import { promptTokens, templateOf } from "./prompt.ts";
import { longCatImagePlaces, longCatImageTables } from "./transformer.ts";

export const LONGCAT_IMAGE = defineFamily({
  classNames: ["LongCatImagePipeline", EDIT_CLASS],
  files: LONGCAT_IMAGE_FILES,
  parts: LONGCAT_IMAGE_PARTS,
  lora: {
    transformer: { family: "LongCat-Image", layouts: [ORIGINAL_LONGCAT_IMAGE] },
    textEncoder: "Qwen2.5-VL",
  },

  info: longCatImageInfo,

  prompts: (request) => guidedPrompts(request),

  chunkedPrompts: (prompts, request, parts, maxLength) =>
    promptTokens(prompts, templateOf(imageTokens(request, parts)), parts.tokenizer, maxLength),

  shapeOf(request, parts, sizes, info) {
    const edit = editShape(request, parts, info.sizeMultiple);
    const { shape, latents } = fluxImageShape(request, parts, sizes, info, edit?.reference);
    const isShortened = !edit && isNormed(request) && shape.prompts > 1;
    return { shape: { ...shape, seen: edit?.seen, isShortened }, latents };
  },

  trace(session, parts, shape) {
    const { textEncoder, tokenizer, transformer } = parts;
    const { config, weights: { root: weights } } = transformer;
    const { reference, seen } = shape;
    const edit = reference && seen
      ? traceEdit(session, parts, { reference, seen }, shape)
      : undefined;
    const template = templateOf(seen && tokensOf(seen));
    const [first, shown] = [template.unseen, template.seen]
      .map((text) => tokenizer.encode(text, { addSpecialTokens: false }).length) as [
        number,
        number,
      ];
    const layers = [textEncoder.config.num_hidden_layers];
    return traceFluxImages(session, parts, shape, {
      encoder: edit?.encoder ?? qwenTextEncoder(textEncoder, tokenizer.padId, layers),
      reference: edit,
      rows: [first, first + shown + shape.textTokens],
      context: (states) => flux1Context(config, weights, states),
      tables: (embedded) => longCatImageTables(config, weights, embedded),
      kind: "gelu",
      places: longCatImagePlaces,
      guidance: ({ guidanceScale, guidanceRescale = 1 }, prompts) =>
        rescaledGuidance(guidanceScale, shape.isShortened ? guidanceRescale : 0, prompts),
      combined: shape.isShortened ? SHORTENED_GUIDANCE : undefined,
    });
  },
});

function isNormed({ guidanceRescale = 1 }: PipelineRequest): boolean {
  return guidanceRescale > 0;
}

/**
 * n + scale · (p − n), of which every token is shortened to the length of p's own where it is longer, by a share (`enable_cfg_renorm`).
 * The settings are scale and share.
 */
const SHORTENED_GUIDANCE: CombinedGuidance = {
  settings: 2,
  trace([positive, negative], settings) {
    const predicted = guidedOutput(positive!, negative!, settings);
    const factor = elementwise("1.0 - share + share * min(sqrt(p) / (sqrt(q) + least), most)", {
      share: slice(settings, 2, 1, 2),
      p: sumOfRows(squares(positive!)),
      q: sumOfRows(squares(predicted)),
    }, { scalars: { least: 1e-8, most: 1 } });
    return elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
  },
};
