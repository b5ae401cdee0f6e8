/**
 * Images by transformers of FLUX.1's line that read one text encoder, with a pass for each prompt: from text, from an input image by
 * strength, and with a mask. Source: diffusers `OvisImagePipeline` and `LongCatImagePipeline`, `FluxImg2ImgPipeline`.
 */
import { type DeviceTensor, f32, type Tensor } from "../../../runtime/mod.ts";
import { PACKED_SIDE, packLatents, unpackLatents } from "../../autoencoders/kl/packing.ts";
import { scaleLatents } from "../../autoencoders/kl/posterior.ts";
import type { KlVaeConfig } from "../../autoencoders/kl/config.ts";
import { roundedTimestep, timestepConstant } from "../../blocks/embeddings.ts";
import { hiddenSize } from "../../config.ts";
import type { Variant } from "../../memory/model_memory.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import type { CommonShape, Generate, PromptSizes } from "../../pipeline/family.ts";
import type { CombinedGuidance, Guidance } from "../../pipeline/guidance.ts";
import { ImageEncoder } from "../../pipeline/image_encoder.ts";
import { klCodec, klImages } from "../../pipeline/kl_coders.ts";
import {
  beginSample,
  gridOf,
  type LatentSize,
  latentSize,
  noiseOf,
  StartImage,
  tokenCount,
  type TokenGrid,
} from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import type { TinyDecoder } from "../../pipeline/tiny_coders.ts";
import type { PipelineInfo, PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import { type FlowMatchEulerScheduler, imageSchedule, imageSteps } from "../../schedulers/mod.ts";
import type { TextEncoder } from "../../text_encoders/text_encoder.ts";
import type { FeedForwardKind, Flux1Sizes } from "./blocks.ts";
import { EMBEDDING_CHANNELS, modulationOf, type ModulationTables } from "./modulation.ts";
import { flux1Transformer } from "./transformer.ts";

interface FluxImageShape extends ReturnType<typeof imageSteps> {
  readonly prompts: number;
  readonly textTokens: number;
  readonly grid: TokenGrid;
  readonly startsFromImage: boolean;
  /** How the tokens of an image lie that the transformer sees beside the result. */
  readonly reference?: TokenGrid | undefined;
}

/** Every prompt is filled up to as many tokens as one may have, and the transformer attends all of them. */
export function fluxImageShape(
  request: PipelineRequest,
  _parts: unknown,
  { lengths, maxLength }: PromptSizes,
  { sizeMultiple }: Pick<PipelineInfo, "sizeMultiple">,
  reference?: TokenGrid,
): { readonly shape: FluxImageShape; readonly latents: readonly LatentSize[] } {
  const grid = gridOf(request, sizeMultiple);
  const startsFromImage = request.task === "TI2I" && !reference;
  const shape = {
    prompts: lengths.length,
    textTokens: maxLength,
    grid,
    startsFromImage,
    reference,
    ...imageSteps(request, startsFromImage),
  };
  const coded = reference ? [grid, reference] : [grid];
  return { shape, latents: coded.map((each) => latentSize(each, PACKED_SIDE)) };
}

interface FluxImageParts {
  readonly transformer: Component<Flux1Sizes>;
  readonly vae: Component<KlVaeConfig>;
  readonly tinyDecoder?: TinyDecoder | undefined;
  readonly scheduler: FlowMatchEulerScheduler;
}

interface FluxImageOptions {
  readonly encoder: TextEncoder;
  /** Rows of the encoder's states that the transformer sees. */
  readonly rows: readonly [first: number, end: number];
  /** [1, text tokens, dim] of states. */
  context(states: Tensor): Tensor;
  /** Vectors of all timesteps, of their sinusoidal embedding. */
  tables(embedded: Tensor): ModulationTables;
  /** Positions of text and images. */
  places(textTokens: number, grids: readonly TokenGrid[]): number[][];
  readonly kind: FeedForwardKind;
  guidance(request: PipelineRequest, prompts: number): Guidance;
  readonly combined?: CombinedGuidance | undefined;
  /** Tokens of the image that the transformer sees beside the result, and what makes them before the prompts are encoded. */
  readonly reference?: {
    readonly tokens: DeviceTensor;
    /** Gives what tells the image from others. */
    run(work: Work): Promise<string>;
  } | undefined;
}

export function traceFluxImages(
  session: Session,
  { transformer, vae, tinyDecoder, scheduler }: FluxImageParts,
  shape: FluxImageShape & CommonShape & Variant,
  options: FluxImageOptions,
): Generate {
  const { grid, prompts, startsFromImage, tileSide } = shape;
  const { config, weights: { root: weights } } = transformer;
  const schedule = imageSchedule(scheduler, tokenCount(grid), shape.steps, shape);
  const size = { ...latentSize(grid, PACKED_SIDE), tileSide };
  const latents = [1, vae.config.latent_channels, size.height, size.width];
  const packed = (x: Tensor) => packLatents(rearrange(x, "1 c y x -> 1 y x c"));

  // 1. Encode: the input image; the prompts.
  const encoder = startsFromImage ? new ImageEncoder(session, klCodec(vae), [size]) : undefined;
  const imageTokens = (x: Tensor) => packLatents(scaleLatents(vae.config, x));
  const start = new StartImage(encoder?.moments[0], latents, imageTokens);
  const [first, rows] = options.rows;
  const text = new PromptEncoder(session, options.encoder, { prompts, rows }, {
    trace: ({ states }) =>
      Array.from(
        { length: prompts },
        (_, i) => options.context(ofPrompt(states, i, [first, rows])),
      ),
  });

  // 2. Noise, added to the input image's latents, as tokens; vectors of all timesteps.
  const times = Array.from(schedule.timesteps, roundedTimestep);
  const begin = session.stage("denoise", { name: "begin" }).program(
    "begin",
    { noise: f32(...latents), ...start.inputs },
    ({ noise, ...image }, graph) => ({
      ...beginSample(packed(noise), start.trace(image), { ...shape, schedule }),
      tables: options.tables(timestepConstant(graph, times, EMBEDDING_CHANNELS)),
    }),
  );

  // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
  const { sample, kept, tables } = begin.outputs;
  const images = klImages({ vae, tinyDecoder }, size, (x) => unpackLatents(x, grid.rows));
  const grids = shape.reference ? [grid, shape.reference] : [grid];
  const places = options.places(rows - first, grids);
  const reference = options.reference?.tokens;
  const loop = session.stage("denoise", { repeats: times.length });
  const denoiser = traceDenoiser(loop, shape, {
    schedule,
    sample,
    kept,
    noise: { shape: latents, arrange: packed },
    passes: text.context.map((context) => ({ context, reference, ...tables })),
    predict: ({ context, sample, reference, step, ...tables }, graph) =>
      flux1Transformer(graph, config, weights, {
        ...{ context, sample, reference },
        grids,
        places,
        kind: options.kind,
        ranks: session.ranks,
        modulation: modulationOf(tables, step, hiddenSize(config)),
      }),
    guidance: options.combined,
    preview: images.preview,
  });

  // 4. Decode.
  const result = images.result(session, sample, shape);

  return async (work) => {
    const draw = noiseOf(work.request, latents);
    const drawn = start.draw(draw);
    await encoder?.run(work);
    await text.run(work, await options.reference?.run(work));
    await work.run([begin.call(drawn)]);
    await denoiser.run(work, options.guidance(work.request, prompts), draw, drawn);
    await result.run(work);
  };
}
