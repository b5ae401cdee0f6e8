/** Answers as Stable Diffusion WebUI gives them. */

import type { ModelInfo } from "../../engine/types.ts";
import { theirName } from "./fields.ts";
import { version } from "../../generation/version.ts";
import { nameOf, WEBUI_SAMPLERS, webuiText } from "../../generation/recipe.ts";
import type { ApiError } from "../contract/errors.ts";
import type { ImageOutput } from "../images/image_job.ts";
import { type ImageRequest, outputSeeds } from "../images/image_request.ts";
import { timestamp } from "./current.ts";

export function webuiError({ status, message, body }: ApiError): Record<string, unknown> {
  const { param } = body.error;
  const inTheirWords = (text: string) => param ? text.replaceAll(param, theirName(param)) : text;
  const { detail } = body;
  return {
    error: status === 500 ? "Exception" : "HTTPException",
    detail: typeof detail === "string" ? inTheirWords(detail) : detail,
    body: "",
    errors: inTheirWords(message),
  };
}

/** Embeddings by their names: those of the model, and those for others. */
export function embeddingsOf({ embeddings = [] }: ModelInfo): Record<string, unknown> {
  const told = (isUsable: boolean) =>
    Object.fromEntries(
      embeddings.filter((each) => each.isUsable === isUsable).map(({ name, vectors, width }) => [
        name,
        { step: null, sd_checkpoint: null, sd_checkpoint_name: null, shape: width, vectors },
      ]),
    );
  return { loaded: told(true), skipped: told(false) };
}

/** What is told of finished images, in the text `info` of an answer. */
export function infoOf(
  request: ImageRequest,
  model: string,
  outputs: readonly Pick<ImageOutput, "index">[],
): Record<string, unknown> {
  const { prompt, negativePrompt, width, height } = request;
  const made = outputs.length > 0 ? outputs : [{ index: 0 }];
  const all = outputSeeds(request);
  const seeds = made.map(({ index }) => all[index]!);
  const texts = seeds.map((seed) => webuiText({ ...request, model, seed }));
  return {
    prompt,
    all_prompts: seeds.map(() => prompt),
    negative_prompt: negativePrompt,
    all_negative_prompts: seeds.map(() => negativePrompt),
    seed: seeds[0],
    all_seeds: seeds,
    subseed: -1,
    all_subseeds: seeds.map(() => -1),
    subseed_strength: 0,
    width,
    height,
    sampler_name: nameOf(WEBUI_SAMPLERS, request.sampler) ?? "Default",
    cfg_scale: request.guidanceScale,
    steps: request.numInferenceSteps,
    batch_size: seeds.length,
    restore_faces: false,
    face_restoration_model: null,
    sd_model_name: model,
    sd_model_hash: null,
    sd_vae_name: null,
    sd_vae_hash: null,
    seed_resize_from_w: -1,
    seed_resize_from_h: -1,
    denoising_strength: request.strength ?? null,
    extra_generation_params: {},
    index_of_first_image: 0,
    infotexts: texts,
    styles: [],
    job_timestamp: timestamp(new Date()),
    clip_skip: (request.clipSkip ?? 0) + 1,
    is_using_inpainting_conditioning: false,
    version: `denoise ${version}`,
  };
}

/** The model, for `GET /sdapi/v1/sd-models`. */
export function checkpointOf(name: string): Record<string, unknown> {
  return { title: name, model_name: name, hash: null, sha256: null, filename: name, config: null };
}

/** Memory in bytes, for `GET /sdapi/v1/memory`. */
export function memoryOf(): Record<string, unknown> {
  const { total, available } = Deno.systemMemoryInfo();
  return {
    ram: { free: available, used: Deno.memoryUsage().rss, total },
    cuda: { error: "Cannot tell the memory of the GPU: WebGPU does not say it" },
  };
}

/** Upscalers, for `GET /sdapi/v1/upscalers`. */
export function upscalersOf({ optionalParts }: ModelInfo): Record<string, unknown>[] {
  const names = ["None", "Lanczos", ...optionalParts.includes("upscaler") ? ["Default"] : []];
  return names.map((name) => ({
    name,
    model_name: null,
    model_path: null,
    model_url: null,
    scale: 4,
  }));
}
