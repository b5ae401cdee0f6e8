/** References of a request: the text encoder sees them on white, the transformer as latents with alpha. */
import type { DeviceTensor } from "../../../runtime/mod.ts";
import { onWhite } from "../../../media/image.ts";
import { resize } from "../../../media/resize.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { PATCHES_PER_SIDE } from "../../image_encoders/qwen2_5_vision.ts";
import type { Session } from "../../memory/session.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { isInpainting } from "../../pipeline/inpainting.ts";
import { gridOf, latentSize, tokenCount, type TokenGrid } from "../../pipeline/latents.ts";
import { withAlpha } from "../../pipeline/pixels.ts";
import { traceShownImages } from "../../pipeline/shown_images.ts";
import type { InputImage, PipelineRequest } from "../../pipeline/types.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { wanImageCodec } from "../../pipeline/wan_image_coders.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import type { TextEncoder } from "../../text_encoders/text_encoder.ts";
import { copySize, digestOf } from "../qwen_image/edit.ts";
import { type QwenImage21Parts, seesImages } from "./config.ts";

interface Given {
  /** Latents of the references as tokens, [1, tokens, in_channels] each. */
  readonly references: readonly DeviceTensor[];
  readonly textEncoder: TextEncoder;
  /** Gives what the text encoder's states depend on beside the prompts. */
  run(work: Work): Promise<string>;
}

/** Images that are seen; the one that is redrawn in part is not among them. */
function referencesOf(request: PipelineRequest, parts: QwenImage21Parts): readonly InputImage[] {
  const { images = [] } = request;
  return seesImages(parts) ? images.slice(isInpainting(request) ? 1 : 0) : [];
}

function copyOf(image: InputImage, { settings }: QwenImage21Parts) {
  return copySize(image, settings.output_resolution ** 2);
}

/** How the tokens of the references lie, whatever the size of the result. */
export function referenceGrids(request: PipelineRequest, parts: QwenImage21Parts): TokenGrid[] {
  return referencesOf(request, parts)
    .map((image) => gridOf(copyOf(image, parts), parts.vae.config.scale_factor_spatial));
}

/** What the text encoder sees of a reference, in tokens. */
export function shownTokens(grid: TokenGrid): number {
  return tokenCount(grid) / PATCHES_PER_SIDE ** 2;
}

export function traceGiven(
  session: Session,
  parts: QwenImage21Parts,
  grids: readonly TokenGrid[],
  tileSide: number,
): Given {
  const { textEncoder, tokenizer, vae } = parts;
  const { num_hidden_layers, vision } = textEncoder.config;
  if (grids.length === 0 || !vision) {
    const layers = [num_hidden_layers];
    return {
      references: [],
      textEncoder: qwenTextEncoder(textEncoder, tokenizer.padId, layers, { isRaw: true }),
      run: () => Promise.resolve(""),
    };
  }
  const sizes = grids.map((grid) => ({ ...latentSize(grid, 1), tileSide }));
  const encoder = new ImageEncoder(session, wanImageCodec(vae), sizes, "encode references");
  const tokens = encoder.stage.program(
    "tokens",
    { all: encoder.moments },
    ({ all }) =>
      all.map((moments) =>
        rearrange(scaleLatents(vae, posteriorMode(moments)), "1 y x c -> 1 (y x) c")
      ),
  );
  const shown = traceShownImages(session, parts, grids, { isRaw: true });
  return {
    references: tokens.outputs,
    textEncoder: shown.encoder,
    async run(work) {
      const copies = referencesOf(work.request, parts).map((image) => {
        const { width, height } = copyOf(image, parts);
        const { data } = withAlpha(image);
        const rgba = { width: image.width, height: image.height, channels: 4 as const, data };
        return resize(rgba, width, height);
      });
      await encoder.run(work, copies);
      await work.run([tokens.call({})]);
      await shown.run(
        work,
        copies.map(({ width, height, data }) => ({ width, height, data: onWhite(data) })),
      );
      return await digestOf(work.request);
    },
  };
}
