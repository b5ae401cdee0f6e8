/** From what a page calls a model to an engine in a worker: which files, where from, and fetching them. */
import { EngineWorker } from "../engine/engine_worker.ts";
import type { Answer } from "../engine/protocol.ts";
import type { ModelPlan } from "../engine/reports.ts";
import { deviceSettings, memorySettings } from "../engine/worker_settings.ts";
import type { LoadModelOptions, ModelParts } from "../engine/options.ts";
import { startEngine, WorkerEngine } from "../engine/worker_engine.ts";
import { isHubId, parseHubFile } from "../hub/cache.ts";
import { chooseFiles } from "../hub/choose_files.ts";
import { HubClient, type HubFile } from "../hub/hub_client.ts";
import { PART_COMPONENTS } from "../hub/model_index.ts";
import { isWeightFile } from "../hub/parts.ts";
import { BUNDLED_MODEL, bundledLoraFiles } from "../models/lora/bundled.ts";
import { mount } from "./files.ts";
import type { FromBrowserWorker, MountedFile, RemoteFileAt, ToBrowserWorker } from "./messages.ts";
import { type CacheMode, type RemoteFile, storedBytes } from "./store.ts";

/** A file: its address, or the file itself as the user picked it, which is read from the disk and copied nowhere. */
export type FileRef = string | URL | Blob;

/** Parts of a model by their names, each a safetensors or GGUF file. */
export type FileParts = {
  readonly [
    Part in Exclude<keyof ModelParts, "predictionType" | "rescaleBetasZeroSnr" | "steersWhenAsked">
  ]?: FileRef;
};

/** A model by its parts, each a safetensors or GGUF file. */
export type ModelFiles =
  & { readonly transformer: FileRef }
  & FileParts;

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
  readonly parts?: FileParts;
  /** LoRAs by names that requests may give as their paths. */
  readonly loras?: Readonly<Record<string, Blob>>;
  /** Address of the hub; Hugging Face's by default. */
  readonly hub?: string;
}

/** Device memory that a tab takes by default, in bytes: browsers do not tell how much there is. */
export const DEFAULT_VRAM_BYTES: number = 4 * 2 ** 30;
/** Address of the hub, where the page names none. */
export const DEFAULT_HUB = "https://huggingface.co";

/** A file of a model: at hand, or still to be fetched. */
type Wanted = { readonly path: string } & (RemoteFile | { readonly blob: Blob });

interface Placed {
  readonly files: readonly Wanted[];
  /** Path of the model in the tab's table. */
  readonly model: string;
  readonly parts: ModelParts;
}

/** A model at work in a worker of this tab. */
export interface LoadedEngine {
  readonly engine: WorkerEngine;
  /** What recipes call it. */
  readonly name: string;
  /** Files of the LoRAs that come with it, by their names. */
  readonly loras: Readonly<Record<string, string>>;
}

/** Loads a model; see `loadModel()` of mod.ts. */
export async function loadEngine(
  source: ModelSource,
  options: BrowserOptions,
): Promise<LoadedEngine> {
  const { cache: _cache, parts: _parts, hub: _hub, loras = {}, ...device } = options;
  const { files, model, parts } = await place(source, options);
  const mounted = await obtain(files, options);
  for (const { path, blob } of mounted) mount(path, { kind: "blob", blob });
  for (const [name, blob] of Object.entries(loras)) mount(name, { kind: "blob", blob });
  const newWorker = () => engineWorker(mounted);
  const modelPath = typeof source === "string" ? source : model;
  const name = typeof source === "string" ? source : model.split("/").at(-1)!;
  const own = {
    maxVramBytes: DEFAULT_VRAM_BYTES,
    ...device,
    modelPath,
    parts,
    namedLoras: modelPath === BUNDLED_MODEL ? bundledLoraFiles() : {},
  };
  const engine = await startEngine(new WorkerEngine(model, own, newWorker), own);
  return { engine, name, loras: own.namedLoras };
}

function engineWorker(files: readonly (MountedFile | RemoteFileAt)[]): EngineWorker {
  const worker = startWorker();
  worker.postMessage({ type: "mount", files } satisfies ToBrowserWorker);
  return new EngineWorker(worker);
}

/** Size of a request that is planned; the model's own by default. */
export interface PlanOptions extends Omit<BrowserOptions, "prepared" | "loras"> {
  /** Pixels per row. */
  readonly width?: number;
  /** Number of rows. */
  readonly height?: number;
  /** Frames of a video; 1 for an image. */
  readonly numFrames?: number;
}

/**
 * Says what a request would take of the GPU's memory, stage by stage, before the weights are fetched: of them only the
 * headers are read.
 *
 * @param source as {@linkcode loadModel} takes it
 * @param options as there, and the size of the request
 * @returns what each stage would have on the device, and whether it fits
 * @throws {Error} when the model is missing or damaged, or no GPU can be used
 * @throws {RangeError} when the model cannot make such a size
 */
export async function planModel(
  source: ModelSource = BUNDLED_MODEL,
  { width, height, numFrames, ...options }: PlanOptions = {},
): Promise<ModelPlan> {
  const { files, model, parts } = await place(source, options);
  const isHeavy = (file: Wanted) => "url" in file && isWeightFile(file.path);
  const small = await obtain(files.filter((file) => !isHeavy(file)), options);
  const heavy = files.flatMap((file) => "url" in file && isHeavy(file) ? [file] : []);
  const remote = await Promise.all(heavy.map(async ({ path, url, size }) => {
    return { path, url, size: size ?? await sizeOf(url) ?? 0 };
  }));
  const own = { maxVramBytes: DEFAULT_VRAM_BYTES, ...options, modelPath: model, parts };
  const worker = engineWorker([...small, ...remote]);
  try {
    const answer = await worker.ask({
      type: "plan",
      ...{ model, parts, device: deviceSettings(own), memory: memorySettings(own) },
      size: { ...(width && { width }), ...(height && { height }), ...(numFrames && { numFrames }) },
    }) as Answer<"planned">;
    return { adapter: answer.adapter, ...answer.size, memory: answer.report };
  } finally {
    await worker.close();
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
  const client = new HubClient({ endpoint: hub, isOffline: false, cacheFolder: "" });
  const files: Wanted[] = [];
  checkSource(source);
  /** Places one file; gives its path. */
  const placed = async (ref: FileRef, folder: string): Promise<string> => {
    const file = await placeFile(ref, folder, client, signal);
    files.push(file);
    return file.path;
  };
  const own: ModelFiles | undefined = typeof source === "object" && !isFolder(source)
    ? source
    : undefined;
  const { transformer, ...others } = own ?? {};
  const paths: Record<string, string> = {};
  for (const [part, ref] of Object.entries({ ...others, ...parts })) {
    paths[part] = await placed(ref, `/parts/${part}`);
  }
  if (transformer !== undefined) {
    return { files, model: await placed(transformer, "/model"), parts: paths };
  }
  if (isFolder(source)) {
    for (const blob of source) {
      files.push({ path: `/picked/${blob.webkitRelativePath || blob.name}`, blob });
    }
    const root = source[0]?.webkitRelativePath.split("/")[0] ?? "";
    return { files, model: `/picked/${root}`, parts: paths };
  }
  const name = String(source);
  if (name === BUNDLED_MODEL) {
    files.push(...await bundledFiles(signal));
    return { files, model: "/models/bundled", parts: paths };
  }
  if (!isHubId(name)) return { files, model: await placed(name, "/model"), parts: paths };
  const { commit, files: listed } = await client.list(name, "main", signal);
  const replaced = Object.entries(PART_COMPONENTS)
    .flatMap(([part, component]) => part in parts ? [`${component}/`] : []);
  for (const file of chooseFiles(name, listed)) {
    const { path } = file;
    if (isWeightFile(path) && replaced.some((folder) => path.startsWith(folder))) continue;
    files.push(remoteOf(client, name, commit, file, `/hub/${name}/${path}`));
  }
  return { files, model: `/hub/${name}`, parts: paths };
}

/** Programs in plain JavaScript may give anything. */
function checkSource(source: ModelSource): void {
  const problem = isFolder(source)
    ? source.length === 0 ? "the picked folder has no files" : undefined
    : typeof source === "string" || source?.transformer !== undefined
    ? undefined
    : "the source names no transformer";
  if (problem === undefined) return;
  throw new TypeError(
    `Cannot load a model: ${problem}; give "bundled", a hub id (org/name, org/name:file), the files of a folder, or parts with a transformer`,
  );
}

function isFolder(source: ModelSource): source is readonly File[] {
  return Array.isArray(source);
}

async function bundledFiles(signal: AbortSignal | undefined): Promise<Wanted[]> {
  const base = new URL("./bundled/", import.meta.url);
  const answer = await fetch(new URL("files.json", base), signal ? { signal } : {});
  if (!answer.ok) throw new Error(`Cannot load the bundled model: ${base} has no files.json`);
  const listed = await answer.json() as (RemoteFile & { path: string })[];
  return listed.map(({ path, ...file }) => ({
    ...file,
    path: `/models/bundled/${path}`,
    url: new URL(path, base).href,
  }));
}

/** A file of a repository, at a path of the tab's table. */
function remoteOf(
  client: HubClient,
  id: string,
  commit: string,
  { path: own, size, hash, hashKind }: HubFile,
  path: string,
): Wanted {
  const url = client.addressOf(id, commit, own);
  return { path, url, size, ...(hashKind === "sha256" && { sha256: hash }) };
}

async function placeFile(
  ref: FileRef,
  folder: string,
  client: HubClient,
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
    return remoteOf(client, id, commit, found, `${folder}/${file.split("/").at(-1)}`);
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

async function sizeOf(url: string): Promise<number | undefined> {
  const { headers, ok } = await fetch(url, { method: "HEAD" });
  return ok && headers.has("content-length") ? Number(headers.get("content-length")) : undefined;
}

/** Fetches the missing files. A worker does it, because only workers can write to the browser's storage piece by piece. */
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
