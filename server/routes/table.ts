/** Every route of the service: what is mounted, and what its document says. */

import type { Context } from "hono";
import type { Operation } from "../openapi/operation.ts";
import type { App, AppEnv, Services } from "../services.ts";
import { docs, mountAbsent, openApi } from "./documents.ts";
import { archive } from "./archive.ts";
import * as models from "./catalogue.ts";
import * as discovery from "./discovery.ts";
import { health, sendMetrics } from "./discovery.ts";
import { imageContent, jobInput, videoContent } from "./content.ts";
import * as images from "./images.ts";
import * as jobs from "./jobs.ts";
import * as loras from "./loras.ts";
import { type Methods, mount } from "./mount.ts";
import * as playground from "./documents.ts";
import * as videos from "./videos.ts";

/** An operation, and what answers it. */
interface Route extends Operation {
  readonly handle: (c: Context<AppEnv>, services: Services) => Response | Promise<Response>;
}

const FORM = "multipart/form-data";
const URL_FORM = "application/x-www-form-urlencoded";
const JSON_TYPE = "application/json";
const EVENTS = { types: ["text/event-stream"] };
const VARIANT = ["variant", "integer", "Which of several results, from 0", { minimum: 0 }] as const;

function chapter(tag: string) {
  return (
    line: `${"GET" | "POST" | "DELETE"} /${string}`,
    id: string,
    summary: string,
    answer: Operation["answer"],
    handle: Route["handle"],
    more: Partial<Operation> = {},
  ): Route => {
    const [method, path] = line.split(" ") as [string, string];
    const verb = method.toLowerCase() as Operation["method"];
    return { method: verb, path, id, tag, summary, answer, handle, ...more };
  };
}

/** Answers with a JSON value. */
function json(value: (services: Services) => unknown): Route["handle"] {
  return async (_, services) => Response.json(await value(services));
}

const image = chapter("Images");
const video = chapter("Videos");
const adapter = chapter("Adapters");
const job = chapter("Jobs");
const model = chapter("Model");
const server = chapter("Server");

/** Routes in the order of the document; a path comes after longer ones that it would match, too. */
export const ROUTES: readonly Route[] = [
  image(
    "POST /v1/images/generations",
    "createImage",
    "Make images of a prompt",
    { json: "Images" },
    images.generate,
    {
      body: { schema: "ImageGeneration", types: [JSON_TYPE] },
      isOnce: true,
      job: "Job",
      events: "`image_generation.partial_image` and `image_generation.completed`, with `stream`",
    },
  ),
  image(
    "POST /v1/images/edits",
    "editImage",
    "Make images of a prompt and of other images",
    { json: "Images" },
    images.edit,
    {
      body: { schema: "ImageEdit", types: [FORM, URL_FORM] },
      isOnce: true,
      job: "Job",
      events: "`image_edit.partial_image` and `image_edit.completed`, with `stream`",
    },
  ),
  image(
    "GET /v1/images/{id}/content",
    "imageContent",
    "Download an image",
    { types: ["image/jpeg", "image/png", "image/webp"] },
    imageContent,
    { query: [VARIANT], isFile: true },
  ),
  video("POST /v1/videos", "createVideo", "Queue a video", { json: "Video" }, videos.create, {
    body: { schema: "VideoRequest", types: [JSON_TYPE, FORM, URL_FORM] },
    isOnce: true,
  }),
  video("GET /v1/videos", "listVideos", "List videos", { json: "VideoList" }, videos.list, {
    query: [["after", "string", "Begin after the video of this id"], [
      "limit",
      "integer",
      "Most videos, 1 to 100; 20 when left out",
      { "minimum": 1, "maximum": 100 },
    ], ["order", "string", "`asc` or `desc` by the time they were queued"]],
  }),
  video(
    "GET /v1/videos/{id}",
    "retrieveVideo",
    "Look at a video's record",
    { json: "Video" },
    videos.retrieve,
  ),
  video("DELETE /v1/videos/{id}", "deleteVideo", "Cancel a video and remove its record and file", {
    json: "DeletedVideo",
  }, videos.remove),
  video(
    "POST /v1/videos/{id}/cancel",
    "cancelVideo",
    "Cancel a video",
    { json: "Video" },
    videos.cancel,
  ),
  video(
    "GET /v1/videos/{id}/events",
    "videoEvents",
    "Follow a video: events `status`, `progress` and `preview`",
    EVENTS,
    videos.events,
  ),
  video(
    "GET /v1/videos/{id}/content",
    "videoContent",
    "Download a video; one that is `fragmented` while it is written",
    { types: ["video/mp4", "audio/wav"] },
    videoContent,
    {
      query: [["variant", "string", "Which of several videos, from 0; `video` is the first"]],
      isFile: true,
    },
  ),
  adapter(
    "POST /v1/set_lora",
    "setLora",
    "Set LoRA adapters for all requests that name none",
    { json: "LoraChange" },
    loras.setLora,
    { body: { schema: "SetLora", types: [JSON_TYPE] } },
  ),
  adapter(
    "POST /v1/merge_lora_weights",
    "mergeLoraWeights",
    "Merge the LoRAs that are set, or were before they were unmerged",
    { json: "LoraChange" },
    loras.mergeLora,
    { body: { schema: "MergeLora", types: [JSON_TYPE], isOptional: true } },
  ),
  adapter(
    "POST /v1/unmerge_lora_weights",
    "unmergeLoraWeights",
    "Restore the model; the LoRAs stay loaded",
    { json: "LoraChange" },
    loras.unmergeLora,
    { body: { schema: "UnmergeLora", types: [JSON_TYPE], isOptional: true } },
  ),
  adapter(
    "POST /v1/loras/{name}",
    "keepLora",
    "Keep a LoRA of one safetensors file, and say what of the model it would change",
    { json: "KeptLora" },
    loras.keepLora,
    {
      query: [["model", "string", "The model that it is for; the first by default"]],
      body: { schema: "File", types: ["application/octet-stream"] },
    },
  ),
  adapter("GET /v1/list_loras", "listLoras", "List the LoRAs that are loaded, and those in use", {
    json: "LoraList",
  }, json(loras.listLoras)),
  job("GET /v1/workers", "listWorkers", "Look at the GPUs: what each does, has and has done", {
    json: "WorkerList",
  }, json(({ workers }) => ({ object: "list", data: workers.list() }))),
  job(
    "GET /v1/jobs",
    "listJobs",
    "Look at the queue, and at the jobs that ended",
    { json: "JobList" },
    jobs.list,
    {
      query: [[
        "after",
        "string",
        "Only those that were queued before the job of this id, and have ended",
      ], ["limit", "integer", "Most jobs that have ended, 1 to 200; 50 when left out", {
        "minimum": 1,
        "maximum": 200,
      }]],
    },
  ),
  job(
    "POST /v1/jobs/archive",
    "archiveResults",
    "Download results of several jobs as one ZIP file",
    { types: ["application/zip"] },
    archive,
    { body: { schema: "ArchiveResults", types: [JSON_TYPE] } },
  ),
  job(
    "GET /v1/jobs/{id}",
    "retrieveJob",
    "Look at a job, with what was asked for and what came of it",
    { json: "Job" },
    jobs.retrieve,
  ),
  job(
    "GET /v1/jobs/{id}/inputs/{index}",
    "jobInput",
    "Download a file that a finished job's request brought",
    { types: ["image/*", "video/*"] },
    jobInput,
    { isFile: true },
  ),
  job("DELETE /v1/jobs/{id}", "deleteJob", "Cancel a job and remove its record and files", {
    json: "DeletedJob",
  }, jobs.remove),
  job(
    "DELETE /v1/jobs/{id}/outputs/{index}",
    "deleteJobOutput",
    "Remove one of a finished job's results; with the last one goes the job",
    { json: "JobWithoutOutput" },
    jobs.removeOutput,
  ),
  job("POST /v1/jobs/{id}/cancel", "cancelJob", "Cancel a job", { json: "Job" }, jobs.cancel),
  job(
    "GET /v1/jobs/{id}/events",
    "jobEvents",
    "Follow a job: events `status`, `progress` and `preview`",
    EVENTS,
    jobs.events,
  ),
  model(
    "GET /v1/models",
    "listModels",
    "List the models",
    { json: "ModelList" },
    discovery.listModels,
  ),
  model(
    "POST /v1/models/{id}/load",
    "loadModel",
    "Bring a model onto the GPU, when the job that runs is done",
    { json: "Model" },
    discovery.changeModel("load"),
  ),
  model(
    "POST /v1/models/{id}/unload",
    "unloadModel",
    "Take a model off the GPU until the next request",
    { json: "Model" },
    discovery.changeModel("unload"),
  ),
  model(
    "POST /v1/models/{id}/parts",
    "changeModelParts",
    "Open a model of this machine again, with other ControlNets and IP-Adapters",
    { json: "Model" },
    models.changeParts,
    { body: { schema: "ChangeParts", types: [JSON_TYPE] } },
  ),
  model(
    "GET /v1/models/{id}",
    "retrieveModel",
    "Look at a model",
    { json: "Model" },
    discovery.retrieveModel,
  ),
  model(
    "DELETE /v1/models/{id}",
    "deleteModel",
    "Remove a model that was pulled from this machine",
    { json: "DeletedModel" },
    models.removeModel,
  ),
  model(
    "GET /v1/catalogue",
    "listCatalogue",
    "List the models that have names: what they are for, what fits, what is here",
    { json: "Catalogue" },
    models.catalogue,
  ),
  model(
    "POST /v1/pulls",
    "pullModel",
    "Fetch a model, or the rest of it, from the hub",
    { json: "ModelPull" },
    models.pull,
    {
      body: { schema: "PullModel", types: [JSON_TYPE] },
      events: "`pull`, each with a `ModelPull`, with `stream`",
    },
  ),
  model("GET /v1/pulls", "listPulls", "List the pulls since the server started", {
    json: "ModelPullList",
  }, json(models.listPulls)),
  model(
    "GET /v1/pulls/{id}",
    "retrievePull",
    "Look at a pull",
    { json: "ModelPull" },
    models.retrievePull,
  ),
  model(
    "POST /v1/pulls/{id}/cancel",
    "cancelPull",
    "Stop a pull; what has come stays, and pulling the model again goes on from there",
    { json: "ModelPull" },
    models.stopPull,
  ),
  model(
    "GET /v1/pulls/{id}/events",
    "pullEvents",
    "Follow a pull: events `pull`, each with a `ModelPull`",
    EVENTS,
    models.pullEvents,
  ),
  model(
    "GET /models",
    "flatModel",
    "Look at the model, as older clients do",
    { json: "FlatModel" },
    json(discovery.flatRecord),
  ),
  model(
    "GET /model_info",
    "modelInfo",
    "See what the model takes and gives",
    { json: "ModelInfo" },
    json(discovery.modelInfo),
  ),
  model(
    "GET /v1/model_info",
    "modelPath",
    "See where the model came from",
    { json: "ModelPath" },
    json(({ settings }) => ({ model_path: settings.modelPath })),
  ),
  server(
    "GET /server_info",
    "serverInfo",
    "See what serves",
    { json: "ServerInfo" },
    json(discovery.serverInfo),
  ),
  server(
    "GET /liveness",
    "liveness",
    "Whether the process lives",
    { json: "Health" },
    json(() => ({ status: "ok" })),
  ),
  server(
    "GET /health",
    "health",
    "Whether the model answers; 503 until then",
    { json: "Health" },
    health,
  ),
  server("GET /health_generate", "healthGenerate", "As `/health`", { json: "Health" }, health),
  server(
    "GET /metrics",
    "metrics",
    "Metrics in the format of Prometheus, with `--enable-metrics`",
    { types: ["text/plain"] },
    sendMetrics,
  ),
  server(
    "GET /openapi.json",
    "openapi",
    "This document",
    { types: [JSON_TYPE] },
    (c, services) => openApi(c, services, ROUTES),
  ),
  server(
    "GET /docs",
    "docs",
    "This document for people",
    { types: ["text/html"] },
    (c, services) => docs(c, services, ROUTES),
  ),
  server(
    "GET /",
    "playground",
    "A page to draw on, unless the server was started with `--no-playground`",
    { types: ["text/html"] },
    playground.page,
  ),
  server("GET /playground/{version}/{name}", "playgroundFile", "A file of that page", {
    types: ["text/javascript", "text/css"],
  }, playground.file),
];

/** Mounts all routes; every other method of their paths is a 405. */
export function mountRoutes(app: App, services: Services): void {
  // Before the paths with an id, which would take their words for one.
  mountAbsent(app);
  for (const [path, routes] of Map.groupBy(ROUTES, ({ path }) => path)) {
    const methods = routes.map(({ method, handle }) => [
      method.toUpperCase(),
      (c: Context<AppEnv>) => handle(c, services),
    ]);
    // Names of models have slashes.
    const rest = path.startsWith("/v1/models/") ? "{.+}" : "";
    mount(app, path.replace(/\{(\w+)\}/g, `:$1${rest}`), Object.fromEntries(methods) as Methods);
  }
}
