/** What is served: models, their tasks, the server's version, health and metrics. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import { acceptsImage, outputTypes } from "../../generation/task.ts";
import type { ServedModel } from "../served_models.ts";
import { type AppEnv, engineOf, type Services } from "../services.ts";
import { version } from "../../generation/version.ts";
import { modelCard, pipelineName, precisionName } from "./model_card.ts";
import { answerOf } from "../http/respond.ts";

type Handler = (c: Context<AppEnv>, services: Services) => Response | Promise<Response>;

const card = (model: ServedModel, { settings, enhancer }: Services) =>
  modelCard(model, settings, enhancer !== undefined);

/** The models that answer, and the first, which says what is the matter with it. */
export async function listModels(c: Context<AppEnv>, services: Services): Promise<Response> {
  await services.models.settle();
  const [first, ...others] = services.models.all;
  const known = others.filter(({ engine }) => engine.status !== "failed" && engine.info);
  const isThere = await Promise.all(
    known.map(({ engine }) => engine.status !== "ready" || (engine.engine.isThere?.() ?? true)),
  );
  return c.json({
    object: "list",
    data: [first, ...known.filter((_, i) => isThere[i])].map((model) => card(model, services)),
  });
}

export async function retrieveModel(c: Context<AppEnv>, services: Services): Promise<Response> {
  const model = await named(c, services);
  await engineOf(services, model, c.req.raw.signal);
  return c.json(card(model, services));
}

/** Brings a model onto the GPU, or takes it off. */
export function changeModel(change: "load" | "unload"): Handler {
  return async (c, services) => {
    const model = await named(c, services);
    await (await engineOf(services, model, c.req.raw.signal))[change]();
    return c.json(card(model, services));
  };
}

async function named(c: Context<AppEnv>, { models }: Services): Promise<ServedModel> {
  const id = c.req.param("id") ?? "";
  await models.seek(id);
  return models.find(id) ?? models.refuse(id, false);
}

export function serverInfo({ settings }: Services): unknown {
  return {
    model_path: settings.modelPath,
    served_model_name: settings.servedModelName,
    tp_size: null,
    dp_size: 1,
    version,
  };
}

/** The first model, as older clients read it. */
export function flatRecord({ engine, settings }: Services): unknown {
  const { info } = engine.engine;
  return {
    model_path: settings.modelPath,
    num_gpus: settings.numGpus,
    task_type: info.defaultTask,
    supported_task_types: info.supportedTasks,
    dit_precision: precisionName(info.precisions.transformer),
    vae_precision: precisionName(info.precisions.vae),
    vae_decode_precision: null,
    pipeline_name: pipelineName(info),
    pipeline_class: info.className,
  };
}

/** What the first model takes and gives. */
export async function modelInfo({ engine, settings, ffmpeg }: Services): Promise<unknown> {
  const { info } = engine.engine;
  return {
    model_path: settings.modelPath,
    is_generation: true,
    model_type: "diffusion",
    architectures: [info.className],
    has_image_understanding: acceptsImage(info.supportedTasks),
    has_audio_understanding: false,
    task_type: info.defaultTask,
    supported_task_types: info.supportedTasks,
    output_types: outputTypes(info.supportedTasks),
    is_image_gen: outputTypes([info.defaultTask])[0] === "IMAGE",
    video_encoder: (await ffmpeg()).description,
  };
}

/** 200 when the model answers, else 503 with the share that is loaded. */
export function health(c: Context<AppEnv>, { engine }: Services): Response {
  const { status, progress, stage } = engine;
  if (status === "ready") {
    const isUnloaded = engine.engine.residence !== "loaded";
    return c.json({ status: "ok", ...(isUnloaded && { model: "unloaded" }) });
  }
  const error = answerOf(engine.unavailable());
  return c.json({ status, progress, stage, ...error.body }, 503, error.headers);
}

/** What the server measures of itself. */
export async function sendMetrics(
  c: Context<AppEnv>,
  { metrics, settings }: Services,
): Promise<Response> {
  if (settings.enableMetrics) {
    return c.body(await metrics.text(), 200, { "content-type": metrics.contentType });
  }
  throw new ApiError(
    404,
    "Cannot GET /metrics: metrics are off; start the server with --enable-metrics",
    { code: "not_enabled" },
  );
}
