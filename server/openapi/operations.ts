/** Every operation of the service, as the document lists them. */

import type { AnswerName } from "./answers.ts";

/** Schemas of request bodies by the names that they have in the document. */
export type BodyName =
  | "ImageGeneration"
  | "ImageEdit"
  | "VideoRequest"
  | "SetLora"
  | "MergeLora"
  | "UnmergeLora";

/** What an operation answers with: JSON of a schema, or something else of a media type. */
type OperationAnswer = { readonly json: AnswerName } | {
  /** Media types, such as `image/png`. */
  readonly types: readonly string[];
};

/** One operation. */
export interface Operation {
  /** HTTP method. */
  readonly method: "get" | "post" | "delete";
  /** Path with parameters in braces. */
  readonly path: string;
  /** Unique, for generators of clients. */
  readonly id: string;
  /** Chapter that it belongs to. */
  readonly tag: string;
  /** What the operation does, in one sentence without a period. */
  readonly summary: string;
  /** Query parameters: name, JSON type, meaning, and the least and the greatest value of a number. */
  readonly query?: readonly (readonly [
    name: string,
    type: "string" | "integer",
    note: string,
    values?: { readonly minimum: number; readonly maximum?: number },
  ])[];
  /** The body and the content types that it may have. */
  readonly body?: {
    readonly schema: BodyName;
    readonly types: readonly string[];
    /** Whether the body may be left out. */
    readonly isOptional?: boolean;
  };
  /** Answer with status 200. */
  readonly answer: OperationAnswer;
  /** Answer with status 202, where a request asks for the job with `Prefer: respond-async`. */
  readonly job?: AnswerName;
  /** Whether the operation makes a job, only one for a request that is sent again with its `Idempotency-Key`. */
  readonly isOnce?: boolean;
  /** Answer with events, where a request asks for them. */
  readonly events?: string;
  /** Whether a file may be answered in part, or be elsewhere. */
  readonly isFile?: boolean;
}

const FORM = "multipart/form-data";
const URL_FORM = "application/x-www-form-urlencoded";
const JSON_TYPE = "application/json";
const VARIANT = ["variant", "integer", "Which of several results, from 0", { minimum: 0 }] as const;

/** Operations in the order of the document. */
export const OPERATIONS: readonly Operation[] = [
  {
    method: "post",
    path: "/v1/images/generations",
    id: "createImage",
    tag: "Images",
    summary: "Make images of a prompt",
    body: { schema: "ImageGeneration", types: [JSON_TYPE] },
    isOnce: true,
    answer: { json: "Images" },
    job: "Job",
    events: "`image_generation.partial_image` and `image_generation.completed`, with `stream`",
  },
  {
    method: "post",
    path: "/v1/images/edits",
    id: "editImage",
    tag: "Images",
    summary: "Make images of a prompt and of other images",
    body: { schema: "ImageEdit", types: [FORM, URL_FORM] },
    isOnce: true,
    answer: { json: "Images" },
    job: "Job",
    events: "`image_edit.partial_image` and `image_edit.completed`, with `stream`",
  },
  {
    method: "get",
    path: "/v1/images/{id}/content",
    id: "imageContent",
    tag: "Images",
    summary: "Download an image",
    query: [VARIANT],
    answer: { types: ["image/jpeg", "image/png", "image/webp"] },
    isFile: true,
  },
  {
    method: "post",
    path: "/v1/videos",
    id: "createVideo",
    tag: "Videos",
    summary: "Queue a video",
    body: { schema: "VideoRequest", types: [JSON_TYPE, FORM, URL_FORM] },
    isOnce: true,
    answer: { json: "Video" },
  },
  {
    method: "get",
    path: "/v1/videos",
    id: "listVideos",
    tag: "Videos",
    summary: "List videos",
    query: [
      ["after", "string", "Begin after the video of this id"],
      ["limit", "integer", "Most videos, 1 to 100; 20 when left out", { minimum: 1, maximum: 100 }],
      ["order", "string", "`asc` or `desc` by the time they were queued"],
    ],
    answer: { json: "VideoList" },
  },
  {
    method: "get",
    path: "/v1/videos/{id}",
    id: "retrieveVideo",
    tag: "Videos",
    summary: "Look at a video's record",
    answer: { json: "Video" },
  },
  {
    method: "delete",
    path: "/v1/videos/{id}",
    id: "deleteVideo",
    tag: "Videos",
    summary: "Cancel a video and remove its record and file",
    answer: { json: "DeletedVideo" },
  },
  {
    method: "post",
    path: "/v1/videos/{id}/cancel",
    id: "cancelVideo",
    tag: "Videos",
    summary: "Cancel a video",
    answer: { json: "Video" },
  },
  {
    method: "get",
    path: "/v1/videos/{id}/events",
    id: "videoEvents",
    tag: "Videos",
    summary: "Follow a video: events `status`, `progress` and `preview`",
    answer: { types: ["text/event-stream"] },
  },
  {
    method: "get",
    path: "/v1/videos/{id}/content",
    id: "videoContent",
    tag: "Videos",
    summary: "Download a video; one that is `fragmented` while it is written",
    query: [["variant", "string", "Which of several videos, from 0; `video` is the first"]],
    answer: { types: ["video/mp4"] },
    isFile: true,
  },
  {
    method: "post",
    path: "/v1/set_lora",
    id: "setLora",
    tag: "Adapters",
    summary: "Set LoRA adapters for all requests that name none",
    body: { schema: "SetLora", types: [JSON_TYPE] },
    answer: { json: "LoraChange" },
  },
  {
    method: "post",
    path: "/v1/merge_lora_weights",
    id: "mergeLoraWeights",
    tag: "Adapters",
    summary: "Merge the LoRAs that are set, or were before they were unmerged",
    body: { schema: "MergeLora", types: [JSON_TYPE], isOptional: true },
    answer: { json: "LoraChange" },
  },
  {
    method: "post",
    path: "/v1/unmerge_lora_weights",
    id: "unmergeLoraWeights",
    tag: "Adapters",
    summary: "Restore the model; the LoRAs stay loaded",
    body: { schema: "UnmergeLora", types: [JSON_TYPE], isOptional: true },
    answer: { json: "LoraChange" },
  },
  {
    method: "get",
    path: "/v1/list_loras",
    id: "listLoras",
    tag: "Adapters",
    summary: "List the LoRAs that are loaded, and those in use",
    answer: { json: "LoraList" },
  },
  {
    method: "get",
    path: "/v1/workers",
    id: "listWorkers",
    tag: "Jobs",
    summary: "Look at the GPUs: what each does, has and has done",
    answer: { json: "WorkerList" },
  },
  {
    method: "get",
    path: "/v1/jobs",
    id: "listJobs",
    tag: "Jobs",
    summary: "Look at the queue, and at the jobs that ended",
    query: [
      ["after", "string", "Only those that were queued before the job of this id, and have ended"],
      ["limit", "integer", "Most jobs that have ended, 1 to 200; 50 when left out", {
        minimum: 1,
        maximum: 200,
      }],
    ],
    answer: { json: "JobList" },
  },
  {
    method: "get",
    path: "/v1/jobs/{id}",
    id: "retrieveJob",
    tag: "Jobs",
    summary: "Look at a job, with what was asked for and what came of it",
    answer: { json: "Job" },
  },
  {
    method: "delete",
    path: "/v1/jobs/{id}",
    id: "deleteJob",
    tag: "Jobs",
    summary: "Cancel a job and remove its record and files",
    answer: { json: "DeletedJob" },
  },
  {
    method: "post",
    path: "/v1/jobs/{id}/cancel",
    id: "cancelJob",
    tag: "Jobs",
    summary: "Cancel a job",
    answer: { json: "Job" },
  },
  {
    method: "get",
    path: "/v1/jobs/{id}/events",
    id: "jobEvents",
    tag: "Jobs",
    summary: "Follow a job: events `status`, `progress` and `preview`",
    answer: { types: ["text/event-stream"] },
  },
  {
    method: "get",
    path: "/v1/models",
    id: "listModels",
    tag: "Model",
    summary: "List the models",
    answer: { json: "ModelList" },
  },
  {
    method: "get",
    path: "/v1/models/{id}",
    id: "retrieveModel",
    tag: "Model",
    summary: "Look at a model",
    answer: { json: "Model" },
  },
  {
    method: "post",
    path: "/v1/models/{id}/load",
    id: "loadModel",
    tag: "Model",
    summary: "Bring a model onto the GPU, when the job that runs is done",
    answer: { json: "Model" },
  },
  {
    method: "post",
    path: "/v1/models/{id}/unload",
    id: "unloadModel",
    tag: "Model",
    summary: "Take a model off the GPU until the next request",
    answer: { json: "Model" },
  },
  {
    method: "get",
    path: "/models",
    id: "flatModel",
    tag: "Model",
    summary: "Look at the model, as older clients do",
    answer: { json: "FlatModel" },
  },
  {
    method: "get",
    path: "/model_info",
    id: "modelInfo",
    tag: "Model",
    summary: "See what the model takes and gives",
    answer: { json: "ModelInfo" },
  },
  {
    method: "get",
    path: "/v1/model_info",
    id: "modelPath",
    tag: "Model",
    summary: "See where the model came from",
    answer: { json: "ModelPath" },
  },
  {
    method: "get",
    path: "/server_info",
    id: "serverInfo",
    tag: "Server",
    summary: "See what serves",
    answer: { json: "ServerInfo" },
  },
  {
    method: "get",
    path: "/liveness",
    id: "liveness",
    tag: "Server",
    summary: "Whether the process lives",
    answer: { json: "Health" },
  },
  {
    method: "get",
    path: "/health",
    id: "health",
    tag: "Server",
    summary: "Whether the model answers; 503 until then",
    answer: { json: "Health" },
  },
  {
    method: "get",
    path: "/health_generate",
    id: "healthGenerate",
    tag: "Server",
    summary: "As `/health`",
    answer: { json: "Health" },
  },
  {
    method: "get",
    path: "/metrics",
    id: "metrics",
    tag: "Server",
    summary: "Metrics in the format of Prometheus, with `--enable-metrics`",
    answer: { types: ["text/plain"] },
  },
  {
    method: "get",
    path: "/openapi.json",
    id: "openapi",
    tag: "Server",
    summary: "This document",
    answer: { types: [JSON_TYPE] },
  },
  {
    method: "get",
    path: "/docs",
    id: "docs",
    tag: "Server",
    summary: "This document for people",
    answer: { types: ["text/html"] },
  },
  {
    method: "get",
    path: "/",
    id: "playground",
    tag: "Server",
    summary: "A page to draw on, unless the server was started with `--no-playground`",
    answer: { types: ["text/html"] },
  },
  {
    method: "get",
    path: "/playground/{version}/{name}",
    id: "playgroundFile",
    tag: "Server",
    summary: "A file of that page",
    answer: { types: ["text/javascript", "text/css"] },
  },
];
