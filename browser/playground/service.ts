/** What the playground asks of a server, answered in the tab by the server's own parts: its queue, its reading of requests, its records. */
import { type Context, Hono } from "hono";
import { findFfmpeg } from "../../media/video/mod.ts";
import { resultSize } from "../../engine/result_size.ts";
import type { ModelInfo } from "../../engine/types.ts";
import { ApiError } from "../../server/contract/errors.ts";
import { EDIT_SPELLINGS, VIDEO_SPELLINGS } from "../../server/contract/fields.ts";
import type { RequestContext } from "../../server/contract/generation.ts";
import { imageEditSchema, videoSchema } from "../../server/contract/generation_fields.ts";
import type { StoredFile } from "../../server/storage/result_storage.ts";
import { answerOf, toApiError } from "../../server/http/respond.ts";
import { removeFiles, runImageJob, toImageResult } from "../../server/images/image_job.ts";
import { outputSeeds, readImageRequest } from "../../server/images/image_request.ts";
import { formBody } from "../../server/inputs/form_body.ts";
import { filesOf, resultsOf } from "../../server/inputs/kept_inputs.ts";
import { asQueued, jobSummary, type NewJob } from "../../server/jobs/job.ts";
import { JobQueue } from "../../server/jobs/job_queue.ts";
import type { JobResult } from "../../server/jobs/outputs.ts";
import { readArchive } from "../../server/contract/small_requests.ts";
import { archiveOf } from "../../server/jobs/archive.ts";
import { explainEngineFailure, toLoraUses } from "../../server/loras/engine_failure.ts";
import { reportOf } from "../../server/loras/report.ts";
import * as jobs from "../../server/routes/jobs.ts";
import { modelCard } from "../../server/routes/model_card.ts";
import { EngineState } from "../../server/served_models.ts";
import { runVideoJob } from "../../server/videos/video_job.ts";
import { videoSummary } from "../../server/videos/video_record.ts";
import { readVideoRequest, VIDEO_PREVIEWS } from "../../server/videos/video_request.ts";
import type { AppEnv } from "../../server/services.ts";
import { readLoraItems } from "../../server/contract/lora_requests.ts";
import { forgetInputs, givenOf, resolveInputs, tabReader, type TabUpload } from "./inputs.ts";
import { mount } from "../files.ts";
import { type BrowserOptions, type LoadedEngine, loadEngine, type ModelSource } from "../load.ts";
import { TabRecords, TabResults } from "./records.ts";
import { findLoras, readForm, readText } from "./requests.ts";

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
  /** Paths of the LoRAs that the user brought, by their names. */
  readonly #brought: Record<string, string> = {};
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
        return await this.#image(c, "generation", await c.req.json(), []);
      })
      .post("v1/loras/:name", (c) => this.#keepLora(c))
      .post("v1/images/edits", (c) => this.#edit(c))
      .post("v1/videos", (c) => this.#video(c))
      .get("v1/images/:id/content", (c) => this.#content(c))
      .get("v1/videos/:id/content", (c) => this.#content(c))
      .get("v1/jobs", onJobs(jobs.list))
      .post("v1/jobs/archive", async (c) => {
        const { results } = readArchive(await c.req.json(), { strictFields: false });
        const [store, storage] = [this.#store, this.#storage];
        return await archiveOf(results, { store, storage, isOwn: () => true });
      })
      .get("v1/jobs/:id", onJobs(jobs.retrieve))
      .get("v1/jobs/:id/inputs/:index", (c) => this.#input(c))
      .delete("v1/jobs/:id", onJobs(jobs.remove))
      .delete("v1/jobs/:id/outputs/:index", onJobs(jobs.removeOutput))
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
    return { ...this.#model!, info: engine.info };
  }

  #card(): ReturnType<typeof modelCard> {
    const { name, loras, info } = this.#loaded;
    const model = { name, namedLoras: loras, engine: this.#engine };
    return modelCard(model, { numGpus: 1 }, false, info);
  }

  async #edit(c: Context<AppEnv>): Promise<Response> {
    const { fields, uploads } = await readForm(c, EDIT_SPELLINGS);
    return await this.#image(c, "edit", formBody(fields, imageEditSchema), uploads);
  }

  #image(
    c: Context<AppEnv>,
    kind: "generation" | "edit",
    body: unknown,
    uploads: readonly TabUpload[],
  ): Promise<Response> {
    const { engine, name } = this.#loaded;
    const id = `img_${crypto.randomUUID()}`;
    const storage = this.#storage;
    return this.#add(c, id, async () => {
      const reader = tabReader(id);
      const read = await readImageRequest(kind, body, this.#context(), { uploads, reader });
      const request = { ...read, given: givenOf(id) };
      return {
        id,
        kind: "image",
        request: { ...request, ignored: [] },
        summary: jobSummary(
          { ...request, ...resultSize(request), seeds: outputSeeds(request) },
          name,
          "",
        ),
        work: (context) => runImageJob({ engine, request, model: name, storage }, context),
        toRecord: toImageResult,
        discard: (outcome) => removeFiles(outcome, storage),
      };
    });
  }

  async #video(c: Context<AppEnv>): Promise<Response> {
    const { engine, name } = this.#loaded;
    const id = `video_${crypto.randomUUID()}`;
    const storage = this.#storage;
    const isForm = c.req.header("content-type")?.startsWith("multipart/form-data");
    const form = isForm ? await readForm(c, VIDEO_SPELLINGS) : undefined;
    const body = form ? formBody(form.fields, videoSchema) : await c.req.json();
    return await this.#add(c, id, async () => {
      const inputs = { uploads: form?.uploads ?? [], resolve: resolveInputs };
      const reader = tabReader(id);
      const read = await readVideoRequest(body, this.#context(), { ...inputs, reader });
      const request = { ...read, given: givenOf(id) };
      const job = {
        engine,
        request,
        storage,
        ffmpeg: await findFfmpeg(),
        previews: VIDEO_PREVIEWS,
      };
      return {
        id,
        kind: "video",
        request: { ...request, ignored: [] },
        summary: { ...jobSummary(request, name, ""), ...videoSummary(request) },
        work: (context) => runVideoJob(job, context),
        toRecord: (result) => result,
        discard: async (result) => {
          for (const file of filesOf(result)) await storage.remove(file);
        },
      };
    });
  }

  /** Queues a job; what its request brought is freed where it is refused. */
  async #add<T>(c: Context<AppEnv>, id: string, read: () => Promise<NewJob<T>>): Promise<Response> {
    try {
      const { outcome } = await this.#queue.add(await read());
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
      findLoras: (items) => Promise.try(findLoras, items ?? [], { ...loras, ...this.#brought }),
      nameLoras: (items) =>
        readLoraItems(items ?? [], "auto")
          .map(({ path, nickname = "", strength }) => ({ path: path ?? nickname, strength })),
      checkRoom: async (request) => {
        try {
          await engine.checkRoom(request);
        } catch (error) {
          throw error instanceof RangeError ? new RangeError(error.message.split("\n")[0]!) : error;
        }
      },
    };
  }

  /** Keeps a LoRA until the tab is closed, and says what of the model it changes. */
  async #keepLora(c: Context<AppEnv>): Promise<Response> {
    const name = c.req.param("name")!;
    const path = `/brought/${crypto.randomUUID()}/${name}`;
    mount(path, { kind: "blob", blob: await c.req.raw.blob() });
    const lora = { path: name, file: path, strength: 1, target: "all", mode: "auto" } as const;
    const { engine } = this.#loaded;
    const reports = await engine.checkLoras(toLoraUses([lora]))
      .catch((error) => explainEngineFailure(error, [lora]));
    this.#brought[name] = path;
    return c.json({ path: name, adapters: reports.map(reportOf) });
  }

  async #content(c: Context<AppEnv>): Promise<Response> {
    const job = await this.#store.get(c.req.param("id")!);
    const files = resultsOf(job?.result);
    const [first = 0] = files.keys();
    return await this.#file(files.get(Number(c.req.query("variant") ?? first)), "Image");
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
