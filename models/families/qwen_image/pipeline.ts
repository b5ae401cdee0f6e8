/**
 * Images with Qwen-Image: from text or an input image, edits, masks, layers, and ControlNets.
 * Source: diffusers `QwenImagePipeline`, `QwenImageImg2ImgPipeline`, `QwenImageInpaintPipeline`, `QwenImageLayeredPipeline`,
 * and the `QwenImageEdit*` and `QwenImageControlNet*` pipelines.
 */
import { concat, f32, type Tensor } from "../../../runtime/mod.ts";
import { scaleLatents } from "../../pipeline/wan_coders.ts";
import { timestepConstant, unitTimestep } from "../../blocks/embeddings.ts";
import { controlNetInfos, controlNets } from "../../pipeline/control_nets.ts";
import { controlNetsOf } from "../../pipeline/control_units.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import { defineFamily } from "../../pipeline/family.ts";
import { guidedPrompts } from "../../pipeline/guidance.ts";
import {
  beginSample,
  gridOf,
  latentSize,
  noiseOf,
  StartImage,
  tokenCount,
} from "../../pipeline/latents.ts";
import { ofPrompt, PromptEncoder } from "../../pipeline/prompts.ts";
import { rearrange } from "../../rearrange.ts";
import { imageSteps } from "../../schedulers/mod.ts";
import {
  controlsByMask,
  EDIT_CLASSES,
  LAYERED_CLASS,
  PATCH_SIDE,
  QWEN_IMAGE_PARTS,
} from "./config.ts";
import { traceControls } from "./control.ts";
import { editRules, imageCounts, layerRules } from "./edit.ts";
import { givenShape, templateTokens, traceGiven, wholePrompt } from "./given.ts";
import { guidanceOf, NORMED_GUIDANCE, qwenImageGuidance, qwenImageSchedule } from "./sampling.ts";
import { qwenImages } from "./images.ts";
import { qwenImageInfo } from "./info.ts";
import { QWEN_IMAGE_FILES } from "./layouts.ts";
import { modulationTables, TIMESTEP_CHANNELS, TIMESTEP_SCALE } from "./modulation.ts";
import { patchesOf, qwenImageContext } from "./blocks.ts";
import { DROPPED_TOKENS } from "./prompt.ts";
import { qwenImageTransformer } from "./transformer.ts";

export const QWEN_IMAGE = defineFamily({
  classNames: [
    "QwenImagePipeline",
    "QwenImageImg2ImgPipeline",
    "QwenImageInpaintPipeline",
    ...[...EDIT_CLASSES, LAYERED_CLASS, "QwenImageControlNetPipeline"],
    "QwenImageControlNetInpaintPipeline",
  ],
  files: QWEN_IMAGE_FILES,
  parts: QWEN_IMAGE_PARTS,
  lora: { transformer: { family: "Qwen-Image", layouts: [] }, textEncoder: "Qwen2.5-VL" },

  info: qwenImageInfo,

  prompts: (request, parts) =>
    guidedPrompts(request, guidanceOf(request) > 1).map((text) =>
      wholePrompt(text, request, parts)
    ),
  templateTokens,

  shapeOf(request, parts, { lengths }, { sizeMultiple }) {
    const grid = gridOf(request, sizeMultiple);
    const given = givenShape(request, parts, sizeMultiple);
    const shape = {
      grid,
      given,
      images: imageCounts(request, layerRules(parts)),
      /** Tokens of every prompt; each has a pass of its own. */
      textTokens: lengths,
      controls: controlNetsOf(request, controlNetInfos(controlNets(parts))),
      ...imageSteps(request, given.start !== undefined),
    };
    const coded = [grid, ...given.references];
    return { shape, latents: coded.map((each) => latentSize(each, PATCH_SIDE)) };
  },

  trace(session, parts, shape) {
    const { transformer, vae } = parts;
    const { grid, images: { sampled }, textTokens, tileSide } = shape;
    const { config, weights: { root: weights } } = transformer;
    // A ControlNet that sees the mask keeps what it shall by itself.
    const isKept = shape.isMasked && !controlsByMask(parts);
    const isMaskedEdit = shape.isMasked && editRules(parts) !== undefined;
    const schedule = qwenImageSchedule(parts, tokenCount(grid), shape.steps, shape);
    const size = { ...latentSize(grid, PATCH_SIDE), tileSide };
    const latents = [sampled, vae.config.z_dim, size.height, size.width];
    const patches = { i: PATCH_SIDE, j: PATCH_SIDE };
    const patchify = (x: Tensor) => rearrange(x, "n c (y i) (x j) -> 1 (n y x) (c i j)", patches);
    const images = qwenImages(parts, size, grid, shape.images);

    // 1. Encode: the input images; the prompts, by the text encoder and the transformer's own projection.
    const given = traceGiven(session, parts, shape.given, tileSide);
    const imagePatches = (x: Tensor) => patchesOf(scaleLatents(vae, x));
    const start = new StartImage(given.moments, latents, imagePatches);
    const nets = controlNets(parts);
    const shown = shape.control && nets.length > 0 ? shape.controls.map((net) => nets[net]!) : [];
    const steps = schedule.timesteps.length;
    const control = shown.length > 0
      ? traceControls(session, shown, vae, { latents, size, steps })
      : undefined;
    const dropped = DROPPED_TOKENS[editRules(parts) ? "edit" : "describe"];
    const [prompts, rows] = [textTokens.length, Math.max(...textTokens)];
    const text = new PromptEncoder(session, given.textEncoder, { prompts, rows }, {
      trace: ({ states }, graph) => {
        const own = textTokens.map((end, i) => ofPrompt(states, i, [dropped, end]));
        return {
          prompts: own.map((states) => qwenImageContext(graph, config, weights, states)),
          controls: control?.prompts(graph, own[0]!),
        };
      },
    });

    // 2. Noise, added to the input image's latents, as patches; modulation of all timesteps.
    const { timesteps } = schedule;
    const begin = session.stage("denoise", { name: "begin" }).program(
      "begin",
      {
        noise: f32(...latents),
        ...start.inputs,
        others: isMaskedEdit ? given.references : undefined,
      },
      ({ noise, others, ...own }, graph) => {
        const image = start.trace(own);
        const seen = [image, others].filter((part) => part !== undefined);
        const times = [...Array.from(timesteps, unitTimestep), ...config.zero_cond_t ? [0] : []];
        const embedded = timestepConstant(graph, times, TIMESTEP_CHANNELS, TIMESTEP_SCALE);
        return {
          ...beginSample(patchify(noise), image, { schedule, isMasked: isKept }),
          // The image that is kept in part is seen like the others.
          references: isMaskedEdit ? concat(seen, 1) : undefined,
          ...modulationTables(config, weights, embedded),
          controlTables: control?.tables(embedded),
        };
      },
    );

    // 3. Denoise: a pass of the transformer for each prompt, guidance, the solver.
    const { sample, kept, references = given.references, controlTables, ...modulation } =
      begin.outputs;
    const loop = session.stage("denoise", { repeats: timesteps.length });
    const denoiser = traceDenoiser(loop, shape, {
      schedule,
      sample,
      kept,
      noise: { shape: latents, arrange: patchify },
      passes: text.context.prompts.map((context) => ({ context, references, ...modulation })),
      predict: (inputs, graph, { isSteered }) =>
        qwenImageTransformer(graph, config, weights, {
          ...inputs,
          grids: new Array(sampled).fill(grid),
          ranks: session.ranks,
          referenceGrids: shape.given.references,
          controls: isSteered && controlTables
            ? control?.residuals(text.context.controls!, controlTables, { ...inputs, grid })
            : undefined,
        }),
      guidance: prompts > 1 ? NORMED_GUIDANCE : undefined,
      preview: images.preview,
    });

    // 4. Decode.
    const result = images.result(session, sample, shape);

    return async (work) => {
      const draw = noiseOf(work.request, latents);
      // The noise of control pictures comes first.
      const pictureNoise = control?.drawsNoise ? shown.map(() => draw()) : undefined;
      const drawn = start.draw(draw);
      const seen = await given.run(work);
      await text.run(work, seen);
      await control?.run(work, pictureNoise);
      await work.run([begin.call(drawn)]);
      await denoiser.run(work, qwenImageGuidance(work.request, prompts), draw, drawn);
      await result.run(work);
    };
  },
});
