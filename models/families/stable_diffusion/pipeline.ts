/**
 * Images with Stable Diffusion 1, 2 and XL: from text, from an input image by strength, with a mask.
 * Source: diffusers `StableDiffusionPipeline`, `StableDiffusionXLPipeline`, their `Img2Img` and `Inpaint` pipelines.
 */
import { concat, elementwise, f32, gather, slice, type Tensor } from "../../../runtime/mod.ts";
import { scaleFactor } from "../../autoencoders/kl/config.ts";
import { timestepConstant, timestepEmbedding } from "../../blocks/embeddings.ts";
import { chunkedPrompts, chunkRows, promptTowers } from "../../pipeline/chunked_prompts.ts";
import { controlNetInfos, controlNets } from "../../pipeline/control_nets.ts";
import { controlNetsOf, controlUnits } from "../../pipeline/control_units.ts";
import { linearLayer } from "../../blocks/layers.ts";
import type { Variant } from "../../memory/model_memory.ts";
import type { Session } from "../../memory/session.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { type CommonShape, defineFamily, type Generate } from "../../pipeline/family.ts";
import { guidedPrompts } from "../../pipeline/guidance.ts";
import { klCodec, klImages } from "../../pipeline/kl_coders.ts";
import { type ImageGroup, imageGroups } from "../../pipeline/references.ts";
import {
  beginSample,
  gridOf,
  gridTokens,
  type LatentSize,
  latentSize,
  noiseOf,
  type TokenGrid,
} from "../../pipeline/latents.ts";
import { PromptEncoder } from "../../pipeline/prompts.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { ControlBalance } from "../../pipeline/settings.ts";
import type { PromptSyntax } from "../../prompt_syntax/parse_prompt.ts";
import { samplingOf, type ScheduleOptions } from "../../schedulers/mod.ts";
import { solverHistory } from "../../schedulers/solver.ts";
import { unetTextStates, unetTimeTables } from "./conditioning.ts";
import {
  checkSdRequest,
  REFINER_START,
  refinerStep,
  SD_PARTS,
  SD_PIPELINES,
  sdInfo,
  SDXL_PIPELINES,
  sightOf,
  timeIds,
  type UnetParts,
} from "./config.ts";
import { traceControls } from "./control.ts";
import { traceIpAdapters } from "./ip_adapter.ts";
import { ipAdapters } from "./ip_adapter_config.ts";
import { traceRefiner } from "./refiner.ts";
import { GivenImage, type GivenShape, givenShape } from "./given.ts";
import {
  editGuidance,
  guidanceEmbedding,
  isEditGuided,
  RESCALED_GUIDANCE,
  sdGuidance,
} from "./guidance.ts";
import { SD_FILES, SD_LORA, SDXL_LORA } from "./layouts.ts";
import { clipText, type ShownText } from "./text.ts";
import { unet } from "./unet.ts";

const STABLE_DIFFUSION = defineFamily({
  classNames: SD_PIPELINES,
  files: SD_FILES,
  parts: SD_PARTS,
  lora: SD_LORA,
  info: sdInfo,
  check: checkSdRequest,

  prompts(request, { transformer: { config } }) {
    const isGuided = sightOf(config) === "image"
      ? isEditGuided(request)
      : request.guidanceScale > 1 && !config.time_cond_proj_dim;
    return guidedPrompts(request, isGuided);
  },

  chunkedPrompts: (prompts, { promptSyntax = "plain", loras }, parts, maxLength) =>
    chunkedPrompts(prompts, promptSyntax, promptTowers(parts, loras), maxLength),

  shapeOf: (request, parts, { lengths }) =>
    imageShape(request, parts, {
      prompts: lengths.length,
      rows: chunkRows(lengths, parts.textEncoder.config.max_position_embeddings),
    }),

  trace: (session, parts, shape) => traceImages(session, parts, clipText(parts, shape), shape),
});

export const STABLE_DIFFUSION_XL: typeof STABLE_DIFFUSION = {
  ...STABLE_DIFFUSION,
  classNames: SDXL_PIPELINES,
  lora: SDXL_LORA,
};

export { STABLE_DIFFUSION };

/** What the programs of a request depend on. */
interface SdShape extends ScheduleOptions {
  readonly grid: TokenGrid;
  readonly given: GivenShape;
  readonly prompts: number;
  readonly rows: number;
  readonly clipSkip: number;
  readonly syntax: PromptSyntax;
  readonly isRescaled: boolean;
  readonly zeroesNegative: boolean;
  readonly steps: number;
  readonly start: number;
  readonly controls: readonly number[];
  readonly balances: readonly ControlBalance[];
  readonly refinerStart: number | undefined;
  readonly seen: readonly Pick<ImageGroup, "adapter" | "images" | "isMasked" | "mode">[];
}

/** With so many prompts of so many rows. */
export function imageShape(
  request: PipelineRequest,
  parts: UnetParts,
  { prompts, rows }: { readonly prompts: number; readonly rows: number },
): { readonly shape: SdShape; readonly latents: readonly LatentSize[] } {
  const { transformer, settings, refiner, vae } = parts;
  const { guidanceRescale = 0, clipSkip = 0, promptSyntax: syntax = "plain" } = request;
  const grid = gridOf(request, scaleFactor(vae.config));
  const isGuided = prompts > 1;
  const { start, ...given } = givenShape(request, sightOf(transformer.config));
  const shape = {
    grid,
    given,
    prompts,
    rows,
    clipSkip,
    syntax,
    isRescaled: isGuided && guidanceRescale > 0,
    zeroesNegative: isGuided && transformer.config.addition_embed_type !== null &&
      settings.force_zeros_for_empty_prompt && request.negativePrompt === "",
    steps: request.numInferenceSteps,
    start,
    controls: controlNetsOf(request, controlNetInfos(controlNets(parts))),
    balances: controlUnits(request).map(({ balance }) => balance),
    refinerStart: refiner && (request.refinerStart ?? REFINER_START),
    seen: imageGroups(request, controlNetInfos(ipAdapters(parts)))
      .map(({ adapter, images, isMasked, mode }) => ({ adapter, images, isMasked, mode })),
    ...samplingOf(request),
  };
  return { shape, latents: [latentSize(grid, 1)] };
}

export function traceImages(
  session: Session,
  parts: UnetParts,
  shown: ShownText,
  shape: SdShape & CommonShape & Variant,
): Generate {
  if (session.ranks.sequence || session.ranks.layers) {
    throw new RangeError(
      "Cannot share a pass of Stable Diffusion between GPUs: its convolutions need all tokens, its skips all layers; share " +
        "the passes of guidance (--enable-cfg-parallel), or let each GPU make its own images",
    );
  }
  const { transformer, vae, scheduler, refiner } = parts;
  const { grid, given: givenKind, prompts, rows, clipSkip, syntax, tileSide, refinerStart } = shape;
  const hasRefiner = refiner !== undefined && refinerStart !== 1;
  const { config, weights: { root: weights } } = transformer;
  const isXl = config.addition_embed_type !== null;
  const isEditing = givenKind.sight === "image";
  const aligned = isXl ? "sdxl" : "sd1";
  const schedule = scheduler.setTimesteps(shape.steps, { ...shape, aligned });
  const size = { ...latentSize(grid, 1), tileSide };
  const { height, width } = size;
  const channels = vae.config.latent_channels;
  const latents = [1, channels, height, width];
  const toImage = (x: Tensor) => x.reshape(1, height, width, x.dim(-1));
  const exact = isXl && vae.config.force_upcast ? { operands: "f32" as const } : {};
  const codec = { ...klCodec(vae), ...exact };
  const images = klImages(parts, size, toImage, exact);

  // 1. Encode: the input image; the prompts by both encoders, then keys and values of all cross-attentions.
  const given = new GivenImage(
    session,
    vae.config,
    codec,
    givenKind,
    size,
    parts.settings.is_cosxl_edit,
  );
  const nets = controlNets(parts);
  const control = nets.length > 0 && shape.control
    ? traceControls(session, shape.controls.map((net) => nets[net]!), codec, size, {
      steps: schedule.timesteps.length,
      levels: config.block_out_channels.length,
      balances: shape.balances,
    })
    : undefined;
  const adapters = shape.seen.length > 0
    ? traceIpAdapters(session, parts, {
      groups: shape.seen,
      isGuided: prompts > 1,
      steps: schedule.timesteps.length,
      size,
    })
    : undefined;
  const text = new PromptEncoder(session, shown.encoder, { prompts, rows }, {
    ...(shown.pooled && { pooled: shown.pooled }),
    pooledRows: rows,
    trace: (encoded) =>
      Array.from({ length: prompts }, (_, i) => {
        const { tokens, second } = shown.of(encoded, i);
        const isZero = i > 0 && shape.zeroesNegative;
        const joined = isZero ? zeros(tokens) : tokens;
        const seen = config.encoder_hid_dim_type
          ? linearLayer(weights, "encoder_hid_proj", joined, config.cross_attention_dim)
          : joined;
        return {
          states: unetTextStates(config, weights, seen),
          controlStates: control?.text(seen),
          vector: second && isZero ? zeros(second.vector) : second?.vector,
          second: hasRefiner ? second : undefined,
        };
      }),
  });

  // 2. Noise, added to the input image's latents; what all steps have of their timesteps.
  const { timesteps } = schedule;
  const guidanceWidth = config.time_cond_proj_dim;
  const { addition_time_embed_dim: idWidth } = config;
  const idsWidth = idWidth ? config.projection_class_embeddings_input_dim! - shown.summary : 0;
  const begin = session.stage("denoise", { name: "begin" }).program(
    "begin",
    {
      noise: f32(...latents),
      ...given.inputs,
      guidance: guidanceWidth ? f32(1, guidanceWidth) : undefined,
      ids: idWidth ? f32(prompts, idsWidth) : undefined,
      vectors: text.context.map(({ vector }) => vector).filter((vector) => vector !== undefined),
    },
    ({ noise, guidance, vectors, ids, ...image }, graph) => {
      const { image: start, conditions } = given.trace(image);
      const embedded = timestepConstant(graph, timesteps, config.block_out_channels[0]!);
      const tables = (pooled?: Tensor, i = 0) => {
        const given = {
          timesteps: embedded,
          guidance,
          added: pooled && ids ? { pooled, ids: slice(ids, 0, i, i + 1) } : undefined,
        };
        return {
          times: unetTimeTables(config, weights, given),
          controlTimes: control?.times(given),
        };
      };
      return {
        sample: beginSample(gridTokens(noise), givenKind.isNoise ? undefined : start, {
          schedule,
          isMasked: false,
        }).sample,
        kept: shape.isMasked && givenKind.sight !== "mask" ? start : undefined,
        conditions,
        // One more pass sees no image.
        unseen: conditions && isEditing && prompts > 1 ? zeros(conditions) : undefined,
        // Without vectors all prompts have the same.
        tables: vectors.length > 0 ? vectors.map((vector, i) => tables(vector, i)) : [tables()],
      };
    },
  );

  // 3. Denoise: a pass of the UNet for each prompt, guidance, the solver.
  const { sample, tables, kept, conditions, unseen } = begin.outputs;
  const own = text.context.map((prompt, i) => ({
    ...prompt,
    ...tables[i] ?? tables[0]!,
    conditions,
  }));
  const passes = (unseen ? [...own, { ...own[1]!, conditions: unseen }] : own)
    .map((pass, i) => ({ ...pass, images: adapters?.states(i) }));
  const handover = hasRefiner ? refinerStep(timesteps, refinerStart!) : timesteps.length;
  const history = hasRefiner ? solverHistory(session, schedule, sample) : undefined;
  const shared = {
    schedule,
    sample,
    kept,
    noise: { shape: latents, arrange: gridTokens },
    guidance: shape.isRescaled ? RESCALED_GUIDANCE : undefined,
    preview: images.preview,
    ...history && { history },
  };
  const loop = session.stage("denoise", { repeats: Math.max(1, handover) });
  const scales = Float32Array.from(timesteps, (_, i) => schedule.inputScale(i));
  const denoiser = traceDenoiser(loop, shape, {
    ...shared,
    range: [0, handover],
    passes: passes.map(({ states, times, conditions, images }) => ({
      text: states,
      times,
      conditions,
      images,
    })),
    predict({ sample, step, text, times, conditions, images }, graph, { pass, isSteered }) {
      const table = graph.constant("input scales", [scales.length, 1], "f32", scales);
      const scaled = elementwise("x * scale", { x: sample, scale: gather(table, step) });
      const seen = conditions ? concat([scaled, conditions], -1) : scaled;
      const steering = isSteered
        ? control?.steering({ sample: toImage(scaled), step }, passes[pass]!, pass)
        : [];
      const output = unet(graph, config, weights, {
        sample: toImage(seen),
        text,
        times,
        step,
        steering,
        images: images && adapters!.seen(images, step),
      });
      return output.reshape(...sample.shape);
    },
  });
  const refined = refiner && hasRefiner
    ? traceRefiner(session, shape, refiner, {
      ...shared,
      range: [handover, timesteps.length],
      prompts: text.context.map(({ second }) => second!),
      toImage,
    })
    : undefined;

  // 4. Decode.
  const result = images.result(session, sample, shape);

  return async (work) => {
    const { guidanceScale } = work.request;
    const draw = noiseOf(work.request, latents);
    const drawn = given.draw(draw);
    const { mask } = await given.run(work);
    await control?.run(work);
    await adapters?.run(work);
    await text.run(work, `${syntax} ${clipSkip}`);
    const guidance = guidanceWidth ? guidanceEmbedding(guidanceScale, guidanceWidth) : undefined;
    const sizes = timeIds(work.request, parts.settings.requires_aesthetics_score);
    const ids = idWidth && timestepEmbedding(sizes.slice(0, prompts).flat(), idWidth);
    await work.run([begin.call({ ...drawn, mask, guidance, ids: ids || undefined })]);
    const guide = isEditing ? editGuidance : sdGuidance;
    await denoiser.run(work, guide(work.request, prompts), draw, drawn);
    await refined?.run(work, draw, drawn);
    await result.run(work);
  };
}

function zeros(x: Tensor): Tensor {
  return x.graph.constant("zeros", x.shape, "f32", new Float32Array(x.size));
}
