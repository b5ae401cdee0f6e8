/** `/v1/loras/{name}`, `/v1/set_lora`, `/v1/merge_lora_weights`, `/v1/unmerge_lora_weights`, `/v1/list_loras`. */

import { answerOf } from "../http/respond.ts";
import { ApiError, badRequest, ServiceError } from "../contract/errors.ts";
import type { Context } from "hono";
import { readAnyJson } from "../http/body.ts";
import { readMergeLora, readSetLora, readUnmergeLora } from "../contract/lora_requests.ts";
import { reportOf } from "../loras/report.ts";
import type { ActiveLora } from "../loras/server_loras.ts";
import type { AppEnv, Services } from "../services.ts";
import { shorten } from "../../generation/texts.ts";
import { checkMay } from "./catalogue.ts";
import { nameIgnored } from "./image_item.ts";

/** What a change is asked for with, and what is said of it. */
interface Change {
  readonly message: string;
  readonly ignored: readonly string[];
}

export function setLora(c: Context<AppEnv>, services: Services): Promise<Response> {
  return change(c, services, "set LoRA adapter", {
    read: (json) => readSetLora(json, services.settings),
    apply: (request) => services.loras.set(request, c.req.raw.signal),
  });
}

export function mergeLora(c: Context<AppEnv>, services: Services): Promise<Response> {
  return change(c, services, "merge LoRA weights", {
    read: (json) => readMergeLora(json, services.settings),
    apply: (request) => services.loras.merge(request),
  });
}

export function unmergeLora(c: Context<AppEnv>, services: Services): Promise<Response> {
  return change(c, services, "unmerge LoRA weights", {
    read: (json) => readUnmergeLora(json, services.settings),
    apply: (request) => services.loras.unmerge(request),
  });
}

/** Keeps the file of the body, and says what of the model it would change. */
export async function keepLora(c: Context<AppEnv>, services: Services): Promise<Response> {
  checkMay(c, services, "keep LoRAs");
  const name = c.req.param("name") ?? "";
  const { body } = c.req.raw;
  if (!body) {
    throw badRequest(`Cannot keep ${shorten(name)}: the body, which is its file, is empty`);
  }
  const { models } = services;
  const model = models.pick(c.req.query("model"));
  const reports = await model.loras.keep(name, body);
  return c.json({ path: name, adapters: reports.map(reportOf) });
}

async function change<T extends Change>(
  c: Context<AppEnv>,
  services: Services,
  what: string,
  { read, apply }: {
    readonly read: (json: unknown) => T;
    readonly apply: (request: T) => Promise<readonly ActiveLora[]>;
  },
): Promise<Response> {
  const json = await readAnyJson(c.req.raw, {
    maxBytes: services.settings.maxBodyBytes,
    share: c.get("share"),
  });
  try {
    const request = read(json);
    const adapters = await apply(request);
    nameIgnored(c, request.ignored, services);
    const { message } = request;
    return c.json({ status: "ok", message, adapters: adapters.map(describe) });
  } catch (error) {
    const answer = error instanceof ServiceError ? answerOf(error) : error;
    throw answer instanceof ApiError && answer.status === 400 ? prefixed(answer, what) : error;
  }
}

/** An error in the words of the reference. */
function prefixed(error: ApiError, what: string): ApiError {
  const { error: { param, code }, problems } = error.body;
  return new ApiError(400, `Failed to ${what}: ${error.message}`, {
    ...(param === null ? {} : { param }),
    ...(code === null ? {} : { code }),
    ...(problems === undefined ? {} : { problems }),
  });
}

function describe({ nickname, path, target, strength, report }: ActiveLora) {
  return { nickname, path, target, strength, ...reportOf(report) };
}

/** The LoRAs that are loaded, and those in use. */
export function listLoras({ loras }: Services): unknown {
  const entry = ({ nickname, path, strength, report: { mode } }: ActiveLora) => ({
    nickname,
    path,
    merged: mode === "merged",
    mode,
    strength,
  });
  const byTarget = Map.groupBy(loras.active, ({ target }) => target);
  const layers = [...byTarget].map(([target, active]) => {
    const names = new Set(active.flatMap(({ report }) => report.layers));
    return [target, names.size] as const;
  });
  return {
    loaded_adapters: loras.loaded,
    active: Object.fromEntries(
      [...byTarget].map(([target, active]) => [target, active.map(entry)]),
    ),
    num_lora_layers_with_weights: Object.fromEntries(layers),
  };
}
