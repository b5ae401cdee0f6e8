/**
 * denoise in a browser tab: the same models, files and pixels as under Deno, on the browser's WebGPU.
 *
 * ```ts
 * import { loadModel } from "denoise/browser";
 *
 * const model = await loadModel();
 * const [image] = await model.generate({ prompt: "a red heart", seed: 7 });
 * document.querySelector("img").src = URL.createObjectURL(await image.toBlob());
 * await model.close();
 * ```
 *
 * @module
 */
import { EngineWorker } from "../engine/engine_worker.ts";
import type { LoadModelOptions, ModelParts } from "../engine/options.ts";
import { WorkerEngine } from "../engine/worker_engine.ts";
import { chooseFiles } from "../hub/choose_files.ts";
import { PART_COMPONENTS } from "../hub/model_index.ts";
import { isWeightFile } from "../hub/parts.ts";
import { HubClient } from "../hub/hub_client.ts";
import { isHubId, parseHubFile } from "../hub/cache.ts";
import { Model } from "../library/model.ts";
import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { mount } from "./files.ts";
import type { FromBrowserWorker, MountedFile, ToBrowserWorker } from "./messages.ts";
import { type CacheMode, type RemoteFile, storedBytes } from "./store.ts";

export { GeneratedImage } from "../generation/generated_image.ts";
export { GeneratedVideo } from "../generation/generated_video.ts";
export { FieldError } from "../generation/settings.ts";
export { LoraError } from "../models/lora/lora_error.ts";
export { Model } from "../library/model.ts";
export type { CacheMode, RemoteFile } from "./store.ts";
export type * from "../mod.ts";

/** Where a file is: an address, or one that the user picked, which is read where it lies. */
export type FileRef = string | URL | Blob;

/** A model by its parts, each a safetensors or GGUF file. */
export type ModelFiles =
  & { readonly transformer: FileRef }
  & { readonly [Part in keyof ModelParts]?: FileRef };

/**
 * A model: `"bundled"`; a hub id, `org/name` or `org/name:file`; a folder in the diffusers layout as an `<input>` with
 * `webkitdirectory` gives it; or its parts.
 */
export type ModelSource = string | readonly File[] | ModelFiles;

/** How `loadModel()` loads. */
export interface BrowserOptions extends
  Pick<
    LoadModelOptions,
    "maxVramBytes" | "powerPreference" | "onLoadProgress" | "onNote" | "signal" | "prepared"
  > {
  /** Whether files are kept for the next visit; `opfs` by default. */
  readonly cache?: CacheMode;
  /** Files of parts in place of the model's own; hub ids as `org/name:file`. */
  readonly parts?: { readonly [Part in keyof ModelParts]?: FileRef };
  /** LoRAs by names that requests may give as their paths. */
  readonly loras?: Readonly<Record<string, Blob>>;
  /** Address of the hub; Hugging Face's by default. */
  readonly hub?: string;
}

/** Device memory that a tab takes by default, in bytes: browsers do not tell how much there is. */
const DEFAULT_VRAM_BYTES = 4 * 2 ** 30;
const DEFAULT_HUB = "https://huggingface.co";

/** A file of a model: at hand, or still to be fetched. */
type Wanted = { readonly path: string } & (RemoteFile | { readonly blob: Blob });

interface Placed {
  readonly files: readonly Wanted[];
  /** Path of the model in the tab's table. */
  readonly model: string;
  readonly parts: ModelParts;
}

/**
 * Loads a model in this tab.
 *
 * @param source which model; the bundled one by default
 * @param options how files are kept, and the device
 * @returns the model, ready to generate
 * @throws {Error} when a file cannot be had or is damaged, or the browser has no WebGPU
 */
export async function loadModel(
  source: ModelSource = BUNDLED_MODEL,
  options: BrowserOptions = {},
): Promise<Model> {
  const { signal, loras = {} } = options;
  const { files, model, parts } = await place(source, options);
  const mounted = await obtain(files, options);
  for (const { path, blob } of mounted) mount(path, { kind: "blob", blob });
  for (const [name, blob] of Object.entries(loras)) mount(name, { kind: "blob", blob });
  const newWorker = () => {
    const worker = startWorker();
    worker.postMessage({ type: "mount", files: mounted } satisfies ToBrowserWorker);
    return new EngineWorker(worker);
  };
  const { maxVramBytes = DEFAULT_VRAM_BYTES, onLoadProgress, onNote, powerPreference, prepared } =
    options;
  const engine = new WorkerEngine(model, {
    modelPath: typeof source === "string" ? source : model,
    parts,
    maxVramBytes,
    ...(onLoadProgress && { onLoadProgress }),
    ...(onNote && { onNote }),
    ...(powerPreference && { powerPreference }),
    ...(prepared && { prepared }),
  }, newWorker);
  const onAbort = () => void engine.close().catch(() => {});
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    await engine.start();
    return new Model(engine, typeof source === "string" ? source : model.split("/").at(-1)!);
  } catch (error) {
    await engine.close();
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
}

/** What loading a model would fetch, and what the browser has room for. */
export interface Estimate {
  /** Bytes of all files. */
  readonly bytes: number;
  /** Bytes that are not kept in this browser yet. */
  readonly missingBytes: number;
  /** Bytes that the browser still gives this page; absent where it does not tell. */
  readonly freeBytes?: number;
}

/**
 * Says what loading a model would fetch; fetches nothing but lists of files.
 *
 * @param source as {@linkcode loadModel} takes it
 * @param options as there
 * @returns bytes, as far as servers tell sizes
 */
export async function estimate(
  source: ModelSource = BUNDLED_MODEL,
  options: Pick<BrowserOptions, "parts" | "hub" | "signal"> = {},
): Promise<Estimate> {
  const { files } = await place(source, options);
  let [bytes, missingBytes] = [0, 0];
  for (const file of files) {
    if ("blob" in file) continue;
    const size = file.size ?? await sizeOf(file.url) ?? 0;
    bytes += size;
    missingBytes += Math.max(0, size - await storedBytes(file));
  }
  const { quota, usage = 0 } = await navigator.storage?.estimate() ?? {};
  return { bytes, missingBytes, ...(quota !== undefined && { freeBytes: quota - usage }) };
}

async function place(
  source: ModelSource,
  { parts = {}, hub = DEFAULT_HUB, signal }: Pick<BrowserOptions, "parts" | "hub" | "signal">,
): Promise<Placed> {
  const files: Wanted[] = [];
  const placed: ModelParts = {};
  const client = new HubClient({ endpoint: hub, isOffline: false, cacheFolder: "" });
  for (const [part, ref] of Object.entries(parts)) {
    const file = await placeFile(ref, `/parts/${part}`, client, hub, signal);
    files.push(file);
    placed[part as keyof ModelParts] = file.path;
  }
  if (source === BUNDLED_MODEL) {
    const base = new URL("./bundled/", import.meta.url);
    const answer = await fetch(new URL("files.json", base), signal ? { signal } : {});
    if (!answer.ok) throw new Error(`Cannot load the bundled model: ${base} has no files.json`);
    for (const { path, ...file } of await answer.json() as (RemoteFile & { path: string })[]) {
      files.push({ ...file, path: `/bundled/${path}`, url: new URL(path, base).href });
    }
    return { files, model: "/bundled", parts: placed };
  }
  if (typeof source === "string" && isHubId(source)) {
    const { commit, files: listed } = await client.list(source, "main", signal);
    const replaced = Object.entries(PART_COMPONENTS)
      .flatMap(([part, component]) => part in parts ? [`${component}/`] : []);
    for (const { path, size, hash, hashKind } of chooseFiles(source, listed)) {
      if (isWeightFile(path) && replaced.some((folder) => path.startsWith(folder))) continue;
      files.push({
        path: `/hub/${source}/${path}`,
        url: addressOf(hub, source, commit, path),
        size,
        ...(hashKind === "sha256" && { sha256: hash }),
      });
    }
    return { files, model: `/hub/${source}`, parts: placed };
  }
  if (typeof source === "string") {
    const file = await placeFile(source, "/model", client, hub, signal);
    return { files: [...files, file], model: file.path, parts: placed };
  }
  if (Array.isArray(source)) {
    for (const blob of source as readonly File[]) {
      files.push({ path: `/picked/${blob.webkitRelativePath || blob.name}`, blob });
    }
    const root = (source[0] as File | undefined)?.webkitRelativePath.split("/")[0] ?? "";
    return { files, model: `/picked/${root}`, parts: placed };
  }
  const { transformer, ...others } = source as ModelFiles;
  const model = await placeFile(transformer, "/model", client, hub, signal);
  files.push(model);
  for (const [part, ref] of Object.entries(others)) {
    const file = await placeFile(ref, `/parts/${part}`, client, hub, signal);
    files.push(file);
    placed[part as keyof ModelParts] = file.path;
  }
  return { files, model: model.path, parts: placed };
}

async function placeFile(
  ref: FileRef,
  folder: string,
  client: HubClient,
  hub: string,
  signal: AbortSignal | undefined,
): Promise<Wanted> {
  if (ref instanceof Blob) {
    return { path: `${folder}/${(ref as File).name ?? "file.safetensors"}`, blob: ref };
  }
  const named = parseHubFile(String(ref));
  if (named) {
    const { id, file } = named;
    const { commit, files } = await client.list(id, "main", signal);
    const found = files.find(({ path }) => path === file);
    if (!found) throw new RangeError(`Cannot load ${id}: it has no file ${file}`);
    return {
      path: `${folder}/${file.split("/").at(-1)}`,
      url: addressOf(hub, id, commit, file),
      size: found.size,
      ...(found.hashKind === "sha256" && { sha256: found.hash }),
    };
  }
  const url = URL.parse(String(ref), globalThis.location?.href);
  if (!url) {
    throw new TypeError(
      `Cannot load ${
        JSON.stringify(ref)
      }: give an address, a hub id (org/name, org/name:file), or a picked file`,
    );
  }
  return { path: `${folder}/${url.pathname.split("/").at(-1)}`, url: url.href };
}

function addressOf(hub: string, id: string, commit: string, path: string): string {
  return `${hub}/${id}/resolve/${commit}/${path.split("/").map(encodeURIComponent).join("/")}`;
}

async function sizeOf(url: string): Promise<number | undefined> {
  const { headers, ok } = await fetch(url, { method: "HEAD" });
  return ok && headers.has("content-length") ? Number(headers.get("content-length")) : undefined;
}

/** Fetches what is not at hand, in a worker: only there the browser's storage can be written as it comes. */
async function obtain(
  wanted: readonly Wanted[],
  { cache = "opfs", onLoadProgress, signal }: BrowserOptions,
): Promise<MountedFile[]> {
  const given = wanted.filter((file) => "blob" in file);
  const files = wanted.filter((file) => "url" in file);
  if (files.length === 0) return given;
  signal?.throwIfAborted();
  const totalBytes = files.reduce((sum, { size = 0 }) => sum + size, 0);
  let doneBytes = 0;
  const worker = startWorker();
  const { promise, resolve, reject } = Promise.withResolvers<readonly MountedFile[]>();
  const onAbort = () => reject(signal!.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  worker.onerror = ({ message }) => reject(new Error(`Cannot fetch the model: ${message}`));
  worker.onmessage = ({ data }: MessageEvent<FromBrowserWorker>) => {
    if (data.type === "refused") reject(new Error(data.message));
    else if (data.type === "obtained") resolve(data.files);
    else if (data.type === "bytes") {
      doneBytes += data.count;
      const fraction = totalBytes > 0 ? Math.min(1, doneBytes / totalBytes) : 0;
      onLoadProgress?.({ stage: "download", fraction });
    }
  };
  worker.postMessage({ type: "obtain", files, cache } satisfies ToBrowserWorker);
  try {
    return [...given, ...await promise];
  } finally {
    signal?.removeEventListener("abort", onAbort);
    worker.terminate();
  }
}

function startWorker(): Worker {
  return new Worker(new URL("./worker.js", import.meta.url), {
    type: "module",
    name: "denoise-gpu",
  });
}
