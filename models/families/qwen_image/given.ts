/** The programs that encode the images of a request, and the text encoder for its prompts. */
import { type Call, concat, type DeviceTensor, f32 } from "../../../runtime/mod.ts";
import { posteriorMode } from "../../autoencoders/kl/posterior.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { wanImageCodec } from "../../pipeline/wan_image_coders.ts";
import {
  type PatchGrid,
  type PatchLayout,
  patchPixels,
  qwen25Vision,
  type Qwen25VisionConfig,
  tokensOf,
  visionLayout,
} from "../../image_encoders/qwen2_5_vision.ts";
import type { Session } from "../../memory/session.ts";
import { isInpainting } from "../../pipeline/inpainting.ts";
import { gridOf, latentSize, type TokenGrid } from "../../pipeline/latents.ts";
import { withAlpha } from "../../pipeline/pixels.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import { qwenTextEncoder } from "../../text_encoders/qwen.ts";
import { qwen25Axes } from "../../text_encoders/qwen2_5_vl.ts";
import { seeingQwenEncoder } from "../../text_encoders/seeing_qwen.ts";
import type { TextEncoder } from "../../text_encoders/text_encoder.ts";
import { controlsByMask, PATCH_SIDE, type QwenImageParts } from "./config.ts";
import {
  copySize,
  digestOf,
  editRules,
  latentCopy,
  layerRules,
  visionCopy,
  visionGrid,
} from "./edit.ts";
import { patchesOf } from "./blocks.ts";
import { DROPPED_TOKENS, editTemplateTokens, qwenEditPrompt, qwenImagePrompt } from "./prompt.ts";

export interface GivenShape {
  readonly start?: TokenGrid;
  /** Edited, or split into layers: how the tokens of each lie. The first is the one that is redrawn in part. */
  readonly references: readonly TokenGrid[];
  readonly seen: readonly PatchGrid[];
}

export interface Given {
  readonly moments?: DeviceTensor;
  readonly references?: DeviceTensor | undefined;
  readonly textEncoder: TextEncoder;
  run(work: Work): Promise<string>;
}

export function givenShape(
  request: PipelineRequest,
  parts: QwenImageParts,
  sizeMultiple: number,
): GivenShape {
  const { images = [] } = request;
  const rules = editRules(parts);
  if (layerRules(parts)) return { references: [gridOf(request, sizeMultiple)], seen: [] };
  if (!rules) {
    const start = request.task === "TI2I" && !isControlled(request, parts)
      ? gridOf(request, sizeMultiple)
      : undefined;
    return { ...(start && { start }), references: [], seen: [] };
  }
  const start = isInpainting(request) ? gridOf(request, sizeMultiple) : undefined;
  const grids = images.map((image) => gridOf(copySize(image, rules.latentArea), sizeMultiple));
  return {
    ...start ? { start, references: [start, ...grids.slice(1)] } : { references: grids },
    seen: images.map((image) => visionGrid(image, rules)),
  };
}

function isControlled(request: PipelineRequest, parts: QwenImageParts): boolean {
  return controlsByMask(parts) && isInpainting(request) && request.strength === 1;
}

export function wholePrompt(
  prompt: string,
  { images = [] }: PipelineRequest,
  parts: QwenImageParts,
): string {
  const rules = editRules(parts);
  if (!rules) return qwenImagePrompt(prompt);
  const tokens = images.map((image) => tokensOf(visionGrid(image, rules)));
  return qwenEditPrompt(prompt, tokens, rules.isPlus);
}

export function templateTokens({ images = [] }: PipelineRequest, parts: QwenImageParts): number {
  const rules = editRules(parts);
  if (!rules) return DROPPED_TOKENS.describe;
  return editTemplateTokens(images.map((image) => tokensOf(visionGrid(image, rules))));
}

export function traceGiven(
  session: Session,
  parts: QwenImageParts,
  { start, references, seen }: GivenShape,
  tileSide: number,
): Given {
  const { textEncoder, tokenizer, vae } = parts;
  const sizeOf = (grid: TokenGrid) => ({ ...latentSize(grid, PATCH_SIDE), tileSide });
  const plain = () =>
    qwenTextEncoder(textEncoder, tokenizer.padId, [textEncoder.config.num_hidden_layers]);
  const rules = editRules(parts);
  if (start && !rules) {
    const encoder = new ImageEncoder(session, wanImageCodec(vae), [sizeOf(start)]);
    const run = (work: Work) => encoder.run(work).then(() => "");
    return { moments: encoder.moments[0]!, textEncoder: plain(), run };
  }
  if (references.length === 0) return { textEncoder: plain(), run: () => Promise.resolve("") };
  const encoder = new ImageEncoder(session, wanImageCodec(vae), references.map(sizeOf));
  // What is redrawn in part is encoded with noise.
  const others = encoder.moments.slice(start ? 1 : 0);
  const tokens = others.length === 0
    ? undefined
    : encoder.stage.program("tokens", { all: others }, ({ all }) => {
      const patches = all.map((moments) => patchesOf(scaleLatents(vae, posteriorMode(moments))));
      return concat(patches, 1);
    });
  const encode: typeof encoder.run = async (work, images) => {
    await encoder.run(work, images);
    if (tokens) await work.run([tokens.call({})]);
  };
  if (!rules) {
    return {
      references: tokens?.outputs,
      textEncoder: plain(),
      run: (work) => encode(work, work.request.images!.map(withAlpha)).then(() => ""),
    };
  }
  const vision = traceVision(session, parts, seen);
  return {
    ...(start && { moments: encoder.moments[0]! }),
    references: tokens?.outputs,
    textEncoder: seeingQwenEncoder(textEncoder, tokenizer, {
      axes: qwen25Axes(textEncoder.config),
      states: vision.states,
      grids: seen,
    }),
    run: async (work) => {
      const images = work.request.images!;
      const copies = images.map((image, i) => start && i === 0 ? image : latentCopy(image, rules));
      await encode(work, copies);
      const { patch_size: side } = vision.config;
      const patches = images.map((image, i) =>
        [`patches${i}`, patchPixels(visionCopy(image, rules), vision.layouts[i]!, side)] as const
      );
      await work.run([vision.call(Object.fromEntries(patches))], {
        finished: () => work.encodeDone(),
      });
      return await digestOf(work.request);
    },
  };
}

interface Vision {
  readonly config: Qwen25VisionConfig;
  readonly layouts: readonly PatchLayout[];
  /** Tokens of all images, one after the other. */
  readonly states: DeviceTensor;
  /** Takes the patches of the images, `patches0` and so on. */
  call(patches: Readonly<Record<string, Float32Array>>): Call;
}

/** The program of the vision tower, which the images' patches are given to. */
export function traceVision(
  session: Session,
  { textEncoder: { config: { vision }, weights } }: Pick<QwenImageParts, "textEncoder">,
  grids: readonly PatchGrid[],
): Vision {
  const config = vision!;
  const tower = weights.has("model.visual.merger.ln_q.weight") ? "model.visual" : "visual";
  const layouts = grids.map((grid) => visionLayout(config, grid));
  const inputs = Object.fromEntries(
    layouts.map(({ positions }, i) =>
      [`patches${i}`, f32(positions.length, config.patch_size ** 2 * 3)] as const
    ),
  );
  const program = session.stage("encode", { name: "vision" }).program(
    "vision",
    inputs,
    (given, graph) => {
      const states = layouts.map((layout, i) =>
        graph.scope(
          `image ${i}`,
          () =>
            qwen25Vision(graph, config, weights.root.scope(tower), given[`patches${i}`]!, layout),
        )
      );
      return concat(states, 0);
    },
  );
  session.encodeSteps++;
  return {
    config,
    layouts,
    states: program.outputs,
    call: (patches) => program.call(patches),
  };
}
