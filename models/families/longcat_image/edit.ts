/**
 * Edits: the text encoder sees the image in the prompt, the transformer as latents beside the result.
 * Source: diffusers `LongCatImageEditPipeline`.
 */
import type { RgbImage } from "../../../media/image.ts";
import { resize } from "../../../media/resize.ts";
import type { DeviceTensor } from "../../../runtime/mod.ts";
import { PACKED_SIDE, packLatents } from "../../autoencoders/kl/packing.ts";
import { posteriorMode, scaleLatents } from "../../autoencoders/kl/posterior.ts";
import {
  type PatchGrid,
  patchGrid,
  patchPixels,
  type Sides,
  tokensOf,
} from "../../image_encoders/qwen2_5_vision.ts";
import type { Session } from "../../memory/session.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec } from "../../pipeline/kl_coders.ts";
import { gridOf, latentSize, type TokenGrid } from "../../pipeline/latents.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import { qwen25Axes } from "../../text_encoders/qwen2_5_vl.ts";
import { seeingQwenEncoder } from "../../text_encoders/seeing_qwen.ts";
import type { TextEncoder } from "../../text_encoders/text_encoder.ts";
import { digestOf } from "../qwen_image/edit.ts";
import { traceVision } from "../qwen_image/given.ts";
import { EDIT_CLASS, type LongCatImageParts, SIDE_MULTIPLE } from "./config.ts";

interface EditShape {
  /** How the tokens of the image lie that the transformer sees. */
  readonly reference: TokenGrid;
  /** How the patches lie that the text encoder sees. */
  readonly seen: PatchGrid;
}

interface Edit {
  readonly encoder: TextEncoder;
  readonly tokens: DeviceTensor;
  run(work: Work): Promise<string>;
}

/** The size of the copy of an image for the transformer, about `area` pixels in its shape. */
function copySize({ width, height }: Sides, area: number): Sides {
  const ratio = width / height;
  const wide = Math.sqrt(area * ratio);
  const up = (side: number) => Math.ceil(side / SIDE_MULTIPLE) * SIDE_MULTIPLE;
  return { width: up(wide), height: up(wide / ratio) };
}

/** Half as wide and as high, for the text encoder. */
function visionSize(image: Sides, area: number): Sides {
  const { width, height } = copySize(image, area);
  return { width: width / 2, height: height / 2 };
}

export function editShape(
  { images = [] }: PipelineRequest,
  { className, settings, textEncoder }: Pick<
    LongCatImageParts,
    "className" | "settings" | "textEncoder"
  >,
  sizeMultiple: number,
): EditShape | undefined {
  const [image] = images;
  if (className !== EDIT_CLASS || !image) return undefined;
  const area = settings.vae_image_size;
  return {
    reference: gridOf(copySize(image, area), sizeMultiple),
    seen: patchGrid(visionSize(image, area), textEncoder.config.vision!.patch_size),
  };
}

/** Tokens that the text encoder makes of the image of an edit. */
export function imageTokens(
  request: PipelineRequest,
  parts: LongCatImageParts,
): number | undefined {
  const shape = editShape(request, parts, SIDE_MULTIPLE);
  return shape && tokensOf(shape.seen);
}

export function traceEdit(
  session: Session,
  { textEncoder, tokenizer, vae, settings }: LongCatImageParts,
  { reference, seen }: EditShape,
  { tileSide }: { readonly tileSide: number },
): Edit {
  const area = settings.vae_image_size;
  const size = { ...latentSize(reference, PACKED_SIDE), tileSide };
  const encoder = new ImageEncoder(session, klCodec(vae), [size]);
  const tokens = encoder.stage.program(
    "tokens",
    { moments: encoder.moments[0]! },
    ({ moments }) => packLatents(scaleLatents(vae.config, posteriorMode(moments))),
  );
  const vision = traceVision(session, { textEncoder }, [seen]);
  return {
    tokens: tokens.outputs,
    encoder: seeingQwenEncoder(textEncoder, tokenizer, {
      axes: qwen25Axes(textEncoder.config),
      states: vision.states,
      grids: [seen],
    }),
    async run(work) {
      const [image] = work.request.images!;
      const copy = sized(image!, copySize(image!, area));
      await encoder.run(work, [copy]);
      await work.run([tokens.call({})]);
      const shown = sized(copy, visionSize(image!, area));
      const patches = patchPixels(shown, vision.layouts[0]!, vision.config.patch_size);
      await work.run([vision.call({ patches0: patches })], {
        finished: () => work.encodeDone(),
      });
      return await digestOf(work.request);
    },
  };
}

function sized(image: RgbImage, { width, height }: Sides): RgbImage {
  return resize(image, width, height);
}
