/**
 * Images with FLUX.1: from text or an input image, by Kontext, Fill, Canny, Depth, a mask, and ControlNets.
 * Source: diffusers `FluxPipeline`, `FluxImg2ImgPipeline`, `FluxInpaintPipeline`, `FluxFillPipeline`,
 * `FluxControlPipeline`, `FluxKontextPipeline`, `FluxKontextInpaintPipeline` and the `FluxControlNet*` pipelines.
 */
import { f32, type Tensor } from "../../../runtime/mod.ts";
import { PACKED_SIDE, packLatents, unpackLatents } from "../../autoencoders/kl/packing.ts";
import { roundedTimestep, timestepConstant, timestepEmbedding } from "../../blocks/embeddings.ts";
import { controlNetInfos, controlNets } from "../../pipeline/control_nets.ts";
import { controlNetsOf } from "../../pipeline/control_units.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { classifierFree, guidedPrompts } from "../../pipeline/guidance.ts";
import { klImages } from "../../pipeline/kl_coders.ts";
import { beginSample, gridOf, latentSize, noiseOf, tokenCount } from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSchedule, samplingOf } from "../../schedulers/mod.ts";
import { clipTextEncoder } from "../../text_encoders/clip_text.ts";
import { t5TextEncoder } from "../../text_encoders/t5.ts";
import { flux1Prompt } from "./blocks.ts";
import { FLUX1_PARTS, FLUX1_PIPELINES, flux1Info } from "./config.ts";
import { traceControls } from "./control.ts";
import { GivenImage, givenShape } from "./given.ts";
import { FLUX1_FILES, FLUX1_LORA } from "./layouts.ts";
import {
  EMBEDDING_CHANNELS,
  EMBEDDING_SCALE,
  modulationOf,
  modulationTables,
} from "./modulation.ts";
import { flux1Transformer } from "./transformer.ts";
import { hiddenSize } from "../../config.ts";

export const FLUX1 = defineFamily({
  classNames: FLUX1_PIPELINES,
  files: FLUX1_FILES,
  parts: FLUX1_PARTS,
  lora: FLUX1_LORA,
  info: flux1Info,

  prompts: (request) => guidedPrompts(request, (request.trueCfgScale ?? 1) > 1),

  shapeOf(request, parts, { lengths, maxLength }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const { start, ...given } = givenShape(request, parts, sizeMultiple);
    return {
      // Every prompt is padded to the same number of tokens, and has a pass of its own.
      shape: {
        grid,
        given,
        prompts: lengths.length,
        rows: maxLength,
        steps: request.numInferenceSteps,
        start,
        controls: controlNetsOf(request, controlNetInfos(controlNets(parts))),
        ...samplingOf(request),
      },
      latents: [grid, given.reference ?? grid].map((each) => latentSize(each, PACKED_SIDE)),
    };
  },

  trace(session, parts, shape) {
    const { transformer, textEncoder, textEncoder2, vae, scheduler } = parts;
    const { grid, prompts, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    const schedule = imageSchedule(scheduler, tokenCount(grid), shape.steps, shape);
    const size = { ...latentSize(grid, PACKED_SIDE), tileSide };
    const latents = [1, vae.config.latent_channels, size.height, size.width];
    const nets = controlNets(parts);
    const shown = shape.control && nets.length > 0 ? shape.controls.map((net) => nets[net]!) : [];
    const isGuided = [transformer, ...shown].some(({ config }) => config.guidance_embeds);
    const packed = (x: Tensor) => packLatents(rearrange(x, "1 c y x -> 1 y x c"));

    // 1. Encode: the input image; the prompts by both encoders.
    const given = new GivenImage(session, vae, shape.given, size);
    const steps = schedule.timesteps.length;
    const control = shown.length > 0
      ? traceControls(session, shown, vae, { latents, size, steps })
      : undefined;
    const clip = clipTextEncoder(textEncoder, parts.pooledTokenizer!.tokenizer.padId);
    const t5 = t5TextEncoder(textEncoder2, parts.tokenizer.padId, { seesPadding: true });
    const text = new PromptEncoder(session, t5, shape, {
      pooled: clip,
      trace: ({ states, pooled }) => {
        const all = flux1Prompt(config, weights, states, pooled!);
        const own = Array.from({ length: prompts }, (_, i) => ({
          context: ofPrompt(all.context, i),
          summary: ofPrompt(all.summary, i),
        }));
        return { prompts: own, controls: control?.prompts(states, pooled!) };
      },
    });

    // 2. Noise, added to the input image's latents, as tokens; modulation of all timesteps.
    const { timesteps } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      {
        noise: f32(...latents),
        ...given.inputs,
        guidance: isGuided ? f32(1, EMBEDDING_CHANNELS) : undefined,
        summaries: text.context.prompts.map(({ summary }) => summary),
        controlSummaries: text.context.controls?.map(({ summary }) => summary),
      },
      ({ noise, guidance, summaries, controlSummaries, ...images }, graph) => {
        const { image, conditions } = given.trace(images);
        const begun = shape.given.isDrawn || shape.isMasked ? image : undefined;
        // Fill keeps what it shall by itself.
        const isMasked = shape.isMasked && !conditions;
        const times = Array.from(timesteps, roundedTimestep);
        const embedded = timestepConstant(graph, times, EMBEDDING_CHANNELS);
        return {
          ...beginSample(packed(noise), begun, { schedule, isMasked }),
          conditions,
          reference: shape.given.reference && image,
          modulations: summaries.map((summary) =>
            modulationTables(config, weights, { timesteps: embedded, guidance, summary })
          ),
          controlTables: controlSummaries &&
            control?.tables({ timesteps: embedded, guidance }, controlSummaries),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, modulations, kept, controlTables, ...seen } = begin.outputs;
    const grids = [grid, shape.given.reference].filter((one) => one !== undefined);
    const images = klImages(parts, size, (x) => unpackLatents(x, grid.rows));
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: packed },
      passes: text.context.prompts.map(({ context }, i) => ({
        context,
        ...seen,
        ...modulations[i]!,
      })),
      predict: (inputs, graph, { isSteered }) =>
        flux1Transformer(graph, config, weights, {
          ...inputs,
          grids,
          ranks: session.ranks,
          modulation: modulationOf(inputs, inputs.step, hiddenSize(config)),
          controls: isSteered && controlTables
            ? control?.residuals(
              text.context.controls!.map(({ context }) => context),
              controlTables,
              { ...inputs, grid },
            )
            : undefined,
        }),
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, shape);

    return async (work) => {
      const { guidanceScale, trueCfgScale = 1 } = work.request;
      const draw = noiseOf(work.request, latents);
      // The noise of control pictures comes first.
      const pictureNoise = shown.map(() => draw());
      const { noise, ...drawn } = given.draw(draw);
      const guidance = isGuided
        ? timestepEmbedding([guidanceScale * EMBEDDING_SCALE], EMBEDDING_CHANNELS)
        : undefined;
      const seen = await given.run(work);
      await text.run(work);
      await control?.run(work, pictureNoise);
      await work.run([begin.call({ noise, ...drawn, ...seen, guidance })]);
      await denoiser.run(work, classifierFree(trueCfgScale, prompts), draw, { noise });
      await result.run(work);
    };
  },
});
