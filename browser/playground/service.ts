/** What the playground asks of a server, answered in the tab by the server's own parts: its queue, its reading of requests, its records. */
import { type Context, Hono } from "hono";
import { readRecipe, recipeFields } from "../../generation/read_recipe.ts";
import { readImageText } from "../../media/encode.ts";
import { outputOf } from "../../generation/task.ts";
import type { ModelInfo } from "../../engine/types.ts";
import { ApiError, badRequest } from "../../server/contract/errors.ts";
import { EDIT_SPELLINGS, withInputNames } from "../../server/contract/fields.ts";
import type { RequestContext } from "../../server/contract/generation.ts";
import { imageEditSchema, type LoraItem } from "../../server/contract/generation_fields.ts";
import { type JobLora, readLoraItems } from "../../server/contract/lora_requests.ts";
import type { StoredFile } from "../../server/storage/result_storage.ts";
import { answerOf, toApiError } from "../../server/http/respond.ts";
import { removeFiles, runImageJob, toImageResult } from "../../server/images/image_job.ts";
import { outputSeeds, readImageRequest } from "../../server/images/image_request.ts";
import { formBody } from "../../server/inputs/form_body.ts";
import { asQueued, jobSummary } from "../../server/jobs/job.ts";
import { JobQueue } from "../../server/jobs/job_queue.ts";
import type { JobResult } from "../../server/jobs/outputs.ts";
import { readArchive } from "../../server/contract/small_requests.ts";
import { archiveOf } from "../../server/jobs/archive.ts";
import * as jobs from "../../server/routes/jobs.ts";
import { modelCard } from "../../server/routes/model_card.ts";
import { EngineState } from "../../server/served_models.ts";
import type { AppEnv } from "../../server/services.ts";
import { forgetInputs, givenOf, tabReader, type TabUpload } from "./inputs.ts";
import { type BrowserOptions, type LoadedEngine, loadEngine, type ModelSource } from "../load.ts";
import { TabRecords, TabResults } from "./records.ts";

/** Most jobs that wait. */
const MAX_QUEUE = 100;

type Handler = (c: Context<AppEnv>) => Response | Promise<Response>;

export class TabService {
  readonly #store = new TabRecords();
  readonly #storage = new TabResults();
  readonly #queue = new JobQueue(this.#store, { maxQueue: MAX_QUEUE, onEnd: forgetInputs });
  readonly #services: jobs.JobServices = {
    store: this.#store,
    queue: this.#queue,
    storage: this.#storage,
    settings: { apiKeys: [] },
  };
  #loading = new AbortController();
  #engine = new EngineState(Promise.withResolvers<never>().promise);
  #model: LoadedEngine | undefined;
  readonly #app: Hono<AppEnv>;

  /** @param root path of the page's folder, which routes are relative to */
  constructor(root: string) {
    const onJobs =
      (route: (c: Context<AppEnv>, of: jobs.JobServices) => Promise<Response>): Handler => (c) =>
        route(c, this.#services);
    this.#app = new Hono<AppEnv>().basePath(root);
    this.#app
      .use((c, next) => {
        c.set("client", "");
        return next();
      })
      .get("health", (c) => this.#health(c))
      .get("v1/models", (c) => c.json({ object: "list", data: [this.#card()] }))
      .post("v1/images/generations", async (c) => {
        return await this.#add(c, "generation", await c.req.json(), []);
      })
      .post("v1/images/edits", (c) => this.#edit(c))
      .get("v1/images/:id/content", (c) => this.#content(c))
      .get("v1/jobs", onJobs(jobs.list))
      .post("v1/jobs/archive", async (c) => {
        const { results } = readArchive(await c.req.json(), { strictFields: false });
        const [store, storage] = [this.#store, this.#storage];
        return await archiveOf(results, { store, storage, isOwn: () => true });
      })
      .get("v1/jobs/:id", onJobs(jobs.retrieve))
      .get("v1/jobs/:id/inputs/:index", (c) => this.#input(c))
      .delete("v1/jobs/:id", onJobs(jobs.remove))
      .post("v1/jobs/:id/cancel", onJobs(jobs.cancel))
      .get("v1/jobs/:id/events", onJobs(jobs.events))
      .post("sdapi/v1/png-info", readText)
      .notFound(({ req }) => {
        throw new ApiError(
          404,
          `Cannot ${req.method} ${req.path}: a page without a server lacks it`,
        );
      })
      .onError((error, c) => {
        const { body, status } = toApiError(
          error,
          crypto.randomUUID(),
          (line) => console.error(line),
        );
        return c.json(body, status as 400);
      });
  }

  /** Answers a request of the page. */
  readonly fetch = async (request: Request): Promise<Response> => await this.#app.fetch(request);

  get isBusy(): boolean {
    return this.#queue.waiting + this.#queue.running.length > 0;
  }

  /** @throws {Error} while jobs need the model */
  checkFree(): void {
    if (!this.isBusy) return;
    throw new Error("Cannot load another model: jobs run or wait; let them end, or cancel them");
  }

  /** Loads another model; the one before is closed, or its loading stopped. @throws {Error} while jobs use the model */
  async load(source: ModelSource, options: Omit<BrowserOptions, "signal"> = {}): Promise<void> {
    this.checkFree();
    this.#loading.abort();
    const { signal } = this.#loading = new AbortController();
    const before = this.#model;
    const told: Record<string, number> = { download: 0 };
    this.#model = undefined;
    const loading = (async () => {
      await before?.engine.close();
      const loaded = await loadEngine(source, {
        ...options,
        signal,
        prepared: {},
        onLoadProgress: ({ stage, fraction }) => {
          told[stage] = fraction;
          const { download = 0, weights = 0, kernels = 0 } = told;
          state.note((download + weights + kernels) / 3);
        },
      });
      if (imagesOnly(loaded.engine.info).supportedTasks.length === 0) {
        await loaded.engine.close();
        throw new Error(
          `Cannot use ${loaded.name} here: it makes videos, and a tab writes no video files`,
        );
      }
      if (signal.aborted) await loaded.engine.close();
      signal.throwIfAborted();
      this.#model = loaded;
      return loaded.engine;
    })();
    const state = this.#engine = new EngineState(loading);
    await state.settled;
  }

  #health(c: Context<AppEnv>): Response {
    const { status, progress, failure } = this.#engine;
    if (status === "ready") return c.json({ status: "ok" });
    const { error } = answerOf(this.#engine.unavailable()).body;
    return c.json(
      { status, progress, error: { ...error, ...(failure && { message: failure.message }) } },
      503,
    );
  }

  /** @throws {ServiceError} 503 until a model is loaded */
  get #loaded(): LoadedEngine & { readonly info: ModelInfo } {
    const { engine } = this.#engine;
    return { ...this.#model!, info: imagesOnly(engine.info) };
  }

  #card(): ReturnType<typeof modelCard> {
    const { name, loras, info } = this.#loaded;
    const model = { name, namedLoras: loras, engine: this.#engine };
    return modelCard(model, { numGpus: 1 }, false, info);
  }

  async #edit(c: Context<AppEnv>): Promise<Response> {
    const fields: Record<string, string | string[]> = {};
    const uploads: TabUpload[] = [];
    for (const [field, value] of await c.req.raw.formData()) {
      if (typeof value !== "string") uploads.push({ field, file: value });
      else fields[field] = field in fields ? [fields[field]!, value].flat() : value;
    }
    const body = formBody(withInputNames(fields, EDIT_SPELLINGS), imageEditSchema);
    return await this.#add(c, "edit", body, uploads);
  }

  async #add(
    c: Context<AppEnv>,
    kind: "generation" | "edit",
    body: unknown,
    uploads: readonly TabUpload[],
  ): Promise<Response> {
    const { engine, name } = this.#loaded;
    const id = `img_${crypto.randomUUID()}`;
    const storage = this.#storage;
    try {
      const reader = tabReader(id);
      const read = await readImageRequest(kind, body, this.#context(), { uploads, reader });
      const request = { ...read, given: givenOf(id) };
      const { outcome } = await this.#queue.add({
        id,
        kind: "image",
        request: { ...request, ignored: [] },
        summary: jobSummary({ ...request, seeds: outputSeeds(request) }, name, ""),
        work: (context) => runImageJob({ engine, request, model: name, storage }, context),
        toRecord: toImageResult,
        discard: (outcome) => removeFiles(outcome, storage),
      });
      outcome.catch((error) => toApiError(error, id, (line) => console.error(line)));
    } catch (error) {
      forgetInputs(id);
      throw error;
    }
    return c.json(await jobs.show(asQueued((await this.#store.get(id))!), c, this.#services), 202);
  }

  #context(): RequestContext {
    const { engine, info, name, loras } = this.#loaded;
    return {
      info,
      servedModelName: name,
      strictFields: false,
      canEnhance: false,
      defaultSeed: undefined,
      persistent: true,
      respondsAsync: true,
      findLoras: (items) => Promise.try(findLoras, items ?? [], loras),
      checkRoom: async (request) => {
        try {
          await engine.checkRoom(request);
        } catch (error) {
          throw error instanceof RangeError ? new RangeError(error.message.split("\n")[0]!) : error;
        }
      },
    };
  }

  async #content(c: Context<AppEnv>): Promise<Response> {
    const job = await this.#store.get(c.req.param("id")!);
    const { files = [] } = (job?.result ?? {}) as Partial<JobResult>;
    return await this.#file(files[Number(c.req.query("variant") ?? 0)], "Image");
  }

  async #input(c: Context<AppEnv>): Promise<Response> {
    const job = await this.#store.get(c.req.param("id")!);
    const { inputs = [] } = (job?.result ?? {}) as Partial<JobResult>;
    return await this.#file(inputs[Number(c.req.param("index"))], "Input");
  }

  async #file(place: StoredFile | undefined, what: string): Promise<Response> {
    const file = place && await this.#storage.file(place);
    if (!file) throw new ApiError(404, `${what} not found`, { code: "not_found" });
    return new Response(file);
  }
}

/** A tab writes no video files. */
function imagesOnly(info: ModelInfo): ModelInfo {
  const supportedTasks = info.supportedTasks.filter((task) => outputOf(task) === "IMAGE");
  return { ...info, supportedTasks };
}

function findLoras(
  items: readonly LoraItem[],
  named: Readonly<Record<string, string>>,
): JobLora[] {
  return readLoraItems(items, "auto").map((lora) => {
    const path = lora.path ?? lora.nickname!;
    const file = named[path] ?? (URL.canParse(path) ? path : undefined);
    if (file !== undefined) return { ...lora, path, file };
    const known = Object.keys(named).join(", ");
    const names = known === "" ? "" : `, or a name of ${known}`;
    throw badRequest(`Cannot find LoRA ${path}: give its address${names}`, "loras");
  });
}

/** What an image's file says of how it was made. */
async function readText(c: Context<AppEnv>): Promise<Response> {
  const { image } = await c.req.json() as { image: string };
  const recipe = readRecipe(
    readImageText(Uint8Array.fromBase64(image.replace(/^data:[^,]*,/, ""))),
  );
  return c.json({ recipe: recipe ? recipeFields(recipe) : null, unused: recipe?.unused ?? [] });
}
