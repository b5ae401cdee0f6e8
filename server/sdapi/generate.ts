/** `POST /sdapi/v1/txt2img` and `POST /sdapi/v1/img2img`. */

import type { Context } from "hono";
import { readJson } from "../http/body.ts";
import type { LoraItem } from "../contract/generation_fields.ts";
import type { ImageOutput } from "../images/image_job.ts";
import { type ImageRequest, readImageRequest } from "../images/image_request.ts";
import { InputFolder } from "../inputs/input_folder.ts";
import type { UploadedFile } from "../inputs/multipart.ts";
import { badRequest } from "../contract/errors.ts";
import { imageReader } from "../inputs/references.ts";
import { badSource } from "../inputs/sources.ts";
import { type JobOutput, ownerOf, unlessAborted } from "../jobs/job.ts";
import type { JobRecord, RequestKey } from "../jobs/job_store.ts";
import { once, requestKeyOf } from "../jobs/repeated_requests.ts";
import { type AppEnv, engineOf, requestContext, type Services } from "../services.ts";
import type { Style } from "./styles.ts";
import { Base64, base64Json, nameCuts, nameDrawnSize, nameIgnored } from "../routes/image_item.ts";
import { infoOf } from "./answers.ts";
import { decodeBase64 } from "./png_info.ts";
import type { CurrentJobs } from "./current.ts";
import { readWebui, refuseIgnored, theirName, type WebuiRequest } from "./fields.ts";

/** Previews of an image, where they cost little. */
const PREVIEWS = 3;

interface Generation {
  readonly services: Services;
  readonly current: CurrentJobs;
  readonly startsFromImages: boolean;
  readonly styles: readonly Style[];
  /** Name of the model that was chosen for all. */
  readonly chosen: () => string;
}

export async function generateForWebui(
  c: Context<AppEnv>,
  generation: Generation,
): Promise<Response> {
  const { services, startsFromImages } = generation;
  const { settings, inputRoot } = services;
  const body = await readJson(c.req.raw, {
    maxBytes: settings.maxBodyBytes,
    share: c.get("share"),
  });
  const model = checkpointIn(body) ?? generation.chosen();
  const { info } = await requestContext(services, c.req.raw.signal, { model });
  const webui = readWebui(body, info, startsFromImages, generation.styles);
  const key = await requestKeyOf(c, services, body);
  const make = async () => {
    const id = `img_${crypto.randomUUID()}`;
    const folder = new InputFolder(inputRoot, id);
    try {
      const request = await readRequest(c, webui, folder, { ...generation, chosen: () => model });
      return await answer(c, { id, request, webui, ...(key ? { key } : {}) }, generation);
    } catch (error) {
      // The files of a job are its queue's.
      if (!await services.store.get(id)) await folder.remove();
      throw error;
    }
  };
  const repeat = async ({ id, request: asked, revisedPrompt }: JobRecord) => {
    const request = asked as ImageRequest;
    const outcome = services.queue.join(services.runners.image({ id, request, revisedPrompt }));
    const made = await unlessAborted(c.req.raw.signal, outcome);
    nameCuts(c, made);
    return send(c, { id, request, webui }, made.outputs, generation);
  };
  return await once(c, services, key, { make, repeat });
}

async function readRequest(
  c: Context<AppEnv>,
  webui: WebuiRequest,
  folder: InputFolder,
  { services, startsFromImages, chosen }: Generation,
): Promise<ImageRequest> {
  const { signal } = c.req.raw;
  const { settings } = services;
  // What changes nothing is told with the names that the client has for it.
  const model = chosen();
  const context = { ...await requestContext(services, signal, { model }), strictFields: false };
  const { loras = [], ...others } = webui.fields;
  const named = loras as { name: string; strength: number }[];
  const items = await loraItems(named, services.models.pick(model));
  const fields = { ...others, ...(items.length > 0 ? { loras: items } : {}) };
  const kind = startsFromImages ? "edit" : "generation";
  const made = await readImageRequest(kind, fields, context, {
    reader: imageReader({ folder, signal, allowPrivateUrls: settings.allowPrivateUrls }),
    uploads: startsFromImages ? await writeImages(webui, folder) : [],
    maskWay: { isOpaque: true, isInverted: webui.isInverted },
  });
  const ignored = [...new Set([...webui.ignored, ...made.ignored.map(theirName)])];
  refuseIgnored(ignored, settings);
  const isCheap = context.info.nativeSides || context.info.optionalParts.includes("tinyDecoder");
  return { ...made, ignored, previews: isCheap ? PREVIEWS : 0 };
}

interface Asked {
  readonly id: string;
  readonly request: ImageRequest;
  readonly webui: WebuiRequest;
  /** Where its client may send it again. */
  readonly key?: RequestKey;
}

async function answer(
  c: Context<AppEnv>,
  asked: Asked,
  generation: Generation,
): Promise<Response> {
  const { id, request, webui, key } = asked;
  const { services, current } = generation;
  const { settings, queue, runners } = services;
  const model = services.models.pick(request.model);
  c.set("job", id);
  c.get("share").release();
  nameIgnored(c, request.ignored, services);
  nameDrawnSize(c, request, await engineOf(services, model, c.req.raw.signal));
  const client = c.get("client");
  let outputs: readonly ImageOutput[] = [];
  if (webui.rounded) c.header("x-rounded-fields", webui.rounded);
  const { job, end } = current.follow(id, client, request.seeds.length, request.layers);
  try {
    const queued = await queue.add({
      ...runners.image({ id, request, owner: ownerOf(client, settings.apiKeys) }),
      client,
      // A client that may send it again may come back for what it left.
      ...(key ? { requestKey: key } : { signal: c.req.raw.signal }),
    });
    const { outcome } = queued;
    const made = await (key ? unlessAborted(c.req.raw.signal, outcome) : outcome);
    outputs = made.outputs;
    nameCuts(c, made);
  } catch (error) {
    // A client that interrupts gets the finished images.
    if (!job.isInterrupted || c.req.raw.signal.aborted) throw error;
    outputs = await readOutputs(job.outputs, services);
  } finally {
    end();
  }
  return send(c, asked, outputs, generation);
}

/** What is finished, as far as it is still there. */
async function readOutputs(
  outputs: readonly JobOutput[],
  { storage }: Services,
): Promise<ImageOutput[]> {
  const found = await Promise.all(outputs.map(async ({ index, bytes, file }) => {
    const read = bytes ?? (file && await storage?.read(file).catch(() => undefined));
    return read ? [{ index, bytes: read }] : [];
  }));
  return found.flat();
}

function send(
  c: Context<AppEnv>,
  { request, webui }: Asked,
  outputs: readonly ImageOutput[],
  { services }: Generation,
): Response {
  const model = services.models.pick(request.model);
  const { body, headers } = base64Json({
    images: webui.sendsImages ? outputs.map(({ bytes }) => new Base64(bytes)) : [],
    parameters: webui.told,
    info: JSON.stringify(infoOf(request, model.name, outputs)),
  });
  return c.body(body, 200, headers);
}

/** The model that a request names itself. */
function checkpointIn(body: unknown): string | undefined {
  const { override_settings: options } = (body ?? {}) as {
    override_settings?: { sd_model_checkpoint?: unknown } | null;
  };
  const name = options?.sd_model_checkpoint ?? "";
  if (typeof name === "string") return name === "" ? undefined : name;
  throw badRequest("override_settings.sd_model_checkpoint must be a text", "override_settings");
}

/** Files of the images and the mask that a request holds. */
async function writeImages(
  { images, mask }: WebuiRequest,
  folder: InputFolder,
): Promise<UploadedFile[]> {
  const files: UploadedFile[] = [];
  const given = [
    ...images.map((text) => ["image", text] as const),
    ...mask === undefined ? [] : [["mask", mask] as const],
  ];
  for (const [field, text] of given) {
    const bytes = await decodeBase64(text);
    if (!bytes) {
      throw badSource(field === "mask" ? "mask" : "init_images", "its base64 is not valid");
    }
    const path = await folder.write(`${field}.img`, bytes);
    files.push({ field, path, name: field, contentType: "", size: bytes.length });
  }
  return files;
}

/** LoRAs that a prompt names: nicknames, names of the server, or files in its folders without their ending. */
async function loraItems(
  named: readonly { readonly name: string; readonly strength: number }[],
  { loras }: Pick<Services, "loras">,
): Promise<LoraItem[]> {
  if (named.length === 0) return [];
  const offered = await loras.offered();
  return named.map(({ name, strength }) => {
    const found = offered.find((one) => one.name === name);
    return found?.isNickname
      ? { nickname: name, strength }
      : { path: found?.path ?? name, strength };
  });
}
