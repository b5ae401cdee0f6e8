/**
 * Reference images, which LoRAs for edits were trained with: the text encoder sees them in the prompt, the transformer as
 * latents beside the result.
 * Source: lbouaraba `comfyui-krea2edit`, as in Wan2GP; ostris `ai-toolkit`, `krea2` with `edit`; stable-diffusion.cpp,
 * `krea2_edit` and `krea2_ostris_edit`.
 */
import { cover } from "../../../media/fit.ts";
import { resize } from "../../../media/resize.ts";
import { concat, type DeviceTensor, type Tensor } from "../../../runtime/mod.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import {
  PATCHES_PER_SIDE,
  type PatchGrid,
  type Sides,
  smartSize,
  tokensOf,
} from "../../image_encoders/qwen2_5_vision.ts";
import type { Session } from "../../memory/session.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { gridOf, latentSize } from "../../pipeline/latents.ts";
import type { ReferenceMethod } from "../../pipeline/settings.ts";
import { traceShownImages } from "../../pipeline/shown_images.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import { wanImageCodec } from "../../pipeline/wan_image_coders.ts";
import type { Work } from "../../pipeline/work.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { IMAGE_TOKEN } from "../../text_encoders/seeing_qwen.ts";
import type { TextEncoder } from "../../text_encoders/text_encoder.ts";
import { digestOf } from "../qwen_image/edit.ts";
import { DESCRIBE_BEGINNING, DROPPED_TOKENS } from "../qwen_image/prompt.ts";
import { type Krea2Parts, PATCH_SIDE } from "./config.ts";
import type { PlacedGrid } from "./transformer.ts";

/** Fewest and most pixels that the text encoder sees of an image, of the published model's `preprocessor_config.json`. */
const SEEN_PIXELS = { least: 65536, most: 16777216 };

/** A copy of an image, and where its first pixel lies in the result. */
interface Copy extends Sides {
  readonly top: number;
  readonly left: number;
}

interface Method {
  /** What stands in the prompt before an image, counted from 1. */
  label(number: number): string;
  /** About as large is the copy for the text encoder. */
  seen(image: Sides): Sides;
  /** The copy for the transformer, with sides of a multiple. */
  copy(image: Sides, result: Sides, multiple: number): Copy;
}

const METHODS: Readonly<Record<ReferenceMethod, Method>> = {
  index: {
    label: () => "",
    seen: (image) => scaled(image, Math.min(1, 768 / Math.max(image.width, image.height))),
    copy: centredCopy,
  },
  index_timestep_zero: {
    label: (number) => `Picture ${number}: `,
    seen: (image) => scaled(image, Math.min(1, 384 / Math.sqrt(image.width * image.height))),
    copy(image, _, multiple) {
      const share = Math.min(1, 1024 / Math.sqrt(image.width * image.height));
      const { width, height } = scaled(image, share / multiple);
      return { width: width * multiple, height: height * multiple, top: 0, left: 0 };
    },
  },
};

/** How much of the result's sides an image must fill to be cut to its shape. */
const NEARLY_ALL = 0.92;

/** As large as fits into the result, in its middle. */
function centredCopy({ width, height }: Sides, result: Sides, multiple: number): Copy {
  const share = Math.min(result.width / width, result.height / height);
  const least = Math.min(width * share / result.width, height * share / result.height);
  if (least >= NEARLY_ALL) return { width: result.width, height: result.height, top: 0, left: 0 };
  const side = (own: number) => Math.max(1, Math.floor(own * share / multiple)) * multiple;
  const before = (most: number, own: number) => Math.floor((most - own) / multiple / 2) * multiple;
  const copy = { width: side(width), height: side(height) };
  return {
    ...copy,
    top: before(result.height, copy.height),
    left: before(result.width, copy.width),
  };
}

function scaled({ width, height }: Sides, share: number): Sides {
  const side = (own: number) => Math.max(1, Math.round(own * share));
  return { width: side(width), height: side(height) };
}

function methodOf({ referenceMethod = "index" }: Pick<PipelineRequest, "referenceMethod">): Method {
  return METHODS[referenceMethod];
}

export interface ReferenceShapes {
  /** How the tokens lie that the transformer sees. */
  readonly grids: readonly PlacedGrid[];
  /** How the patches lie that the text encoder sees. */
  readonly seen: readonly PatchGrid[];
  readonly areClean: boolean;
}

export function referenceShapes(
  request: PipelineRequest,
  parts: Krea2Parts,
  multiple: number,
): ReferenceShapes {
  const { references = [] } = request;
  const method = methodOf(request);
  return {
    grids: references.map((image) => {
      const { top, left, ...copy } = method.copy(image, request, multiple);
      return { ...gridOf(copy, multiple), top: top / multiple, left: left / multiple };
    }),
    seen: seenGrids(request, parts),
    areClean: request.referenceMethod === "index_timestep_zero",
  };
}

function seenGrids(request: PipelineRequest, { textEncoder }: Krea2Parts): PatchGrid[] {
  const { patch_size: side } = textEncoder.config.vision ?? { patch_size: 1 };
  return (request.references ?? []).map((image) => {
    const seen = methodOf(request).seen(image);
    return gridOf(smartSize(seen, PATCHES_PER_SIDE * side, SEEN_PIXELS), side);
  });
}

/** What stands before a prompt: what is to be done, and the references. */
export function promptBeginning(request: PipelineRequest, parts: Krea2Parts): string {
  return DESCRIBE_BEGINNING + shownReferences(request, parts);
}

/** Tokens of {@linkcode promptBeginning}. */
export function beginningTokens(request: PipelineRequest, parts: Krea2Parts): number {
  return DROPPED_TOKENS.describe + parts.tokenizer.encode(shownReferences(request, parts)).length;
}

function shownReferences(request: PipelineRequest, parts: Krea2Parts): string {
  const { label } = methodOf(request);
  return seenGrids(request, parts).map((grid, i) =>
    `${label(i + 1)}<|vision_start|>${IMAGE_TOKEN.repeat(tokensOf(grid))}<|vision_end|>`
  ).join("");
}

interface Given {
  /** Latents of the references as tokens, one after the other. */
  readonly references?: DeviceTensor;
  readonly textEncoder: TextEncoder;
  /** Gives what the text encoder's states depend on beside the prompts. */
  run(work: Work): Promise<string>;
}

export function traceGiven(
  session: Session,
  parts: Krea2Parts,
  { grids, seen, tileSide }: ReferenceShapes & { readonly tileSide: number },
  imageTokens: (latents: Tensor, grid: PlacedGrid) => Tensor,
): Given {
  const { textEncoder, tokenizer, vae, settings } = parts;
  const layers = settings.text_encoder_select_layers;
  if (grids.length === 0) {
    const textEncoderOf = qwenTextEncoder(textEncoder, tokenizer.padId, layers);
    return { textEncoder: textEncoderOf, run: () => Promise.resolve("") };
  }
  const sizes = grids.map((grid) => ({ ...latentSize(grid, PATCH_SIDE), tileSide }));
  const encoder = new ImageEncoder(session, wanImageCodec(vae), sizes, "encode references");
  const tokens = encoder.stage.program(
    "tokens",
    { all: encoder.moments },
    ({ all }) => concat(all.map((moments, i) => imageTokens(posteriorMode(moments), grids[i]!)), 1),
  );
  const shown = traceShownImages(session, parts, seen, { layers });
  const multiple = PATCH_SIDE * vae.config.scale_factor_spatial;
  const { patch_size: side } = textEncoder.config.vision!;
  return {
    references: tokens.outputs,
    textEncoder: shown.encoder,
    async run(work) {
      const references = work.request.references!;
      const copies = references.map((image, i) => {
        const { rows, columns } = grids[i]!;
        return cover(image, columns * multiple, rows * multiple);
      });
      await encoder.run(work, copies);
      await work.run([tokens.call({})]);
      const views = references.map((image, i) => {
        const { rows, columns } = seen[i]!;
        return resize(image, columns * side, rows * side, "bicubic");
      });
      await shown.run(work, views);
      return await digestOf({ ...work.request, images: references });
    },
  };
}
