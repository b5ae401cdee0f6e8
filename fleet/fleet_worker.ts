/** A member that runs jobs: it claims what it has a place for, says that it lives meanwhile, and records what came of them. */

import type { LoraUse } from "../engine/types.ts";
import { badRequest } from "../server/contract/errors.ts";
import type { JobLora } from "../server/contract/lora_requests.ts";
import { toApiError } from "../server/http/respond.ts";
import { InputFolder } from "../server/inputs/input_folder.ts";
import { endOf, isEnd, isStopping, unlessAborted } from "../server/jobs/job.ts";
import { JobQueue } from "../server/jobs/job_queue.ts";
import type { JobRecord } from "../server/jobs/job_store.ts";
import { EqualPlaces, type Places } from "../server/jobs/turns.ts";
import { WriteBehindStore } from "../server/jobs/write_behind.ts";
import type { Runners } from "../server/runners.ts";
import { type ServedModels, stateOf } from "../server/served_models.ts";
import { ServiceError } from "../server/contract/errors.ts";
import { lookInterval, wakeDelay } from "./crowd.ts";
import { isAway } from "./database.ts";
import type { Fleet } from "./fleet.ts";
import type { Claimed, Leases } from "./leases.ts";
import { Live } from "./live.ts";
import { coalesced, pause, repeat } from "./repeat.ts";
import { lorasOf, moveFiles, readInputs, roomIn, roomRequest } from "./requests.ts";
import type { Worker, WorkerState } from "./roster.ts";

/** How often it is looked for jobs of which no news came, in milliseconds. */
const LOOK_MS = 1000;
/** How long a claim under way may take when the worker leaves, in milliseconds. */
const CLAIM_MS = 2000;
/** How often it says that its jobs are its own, in milliseconds: several times in a lease. */
const RENEW_MS = 1500;
/** After what time the worker must know of a job that it has claimed, in milliseconds. */
const STRAY_MS = 3000;

interface FleetWorkerOptions {
  readonly fleet: Fleet;
  readonly leases: Leases;
  readonly models: ServedModels;
  readonly runners: Runners;
  /** Where jobs run; one at a time by default. */
  readonly places: Places | undefined;
  readonly inputRoot: string;
}

export class FleetWorker {
  readonly #options: FleetWorkerOptions;
  readonly #records: WriteBehindStore;
  readonly #places: Places;
  readonly #queue: JobQueue;
  readonly #live: Live;
  /** Claimed jobs that are not in the queue yet: they resolve when they are, or are given back. */
  readonly #starting = new Map<string, Promise<void>>();
  /** Ids of jobs that were queued, and that no worker is known to have taken. */
  readonly #news = new Set<string>();
  readonly #draining = new AbortController();
  readonly #closing = new AbortController();
  readonly #look = coalesced(() => this.#claimAll());
  #loaded: WorkerState["loaded"] = null;
  #isStarted = false;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(options: FleetWorkerOptions) {
    this.#options = options;
    const { leases, inputRoot, fleet: { bell, database, log } } = options;
    this.#records = new WriteBehindStore(leases, { log });
    this.#places = options.places ?? new EqualPlaces(1);
    this.#places.onChange(() => void this.#look());
    this.#live = new Live(database);
    this.#queue = new JobQueue(this.#records, {
      maxQueue: Infinity,
      places: this.#places,
      resumes: true,
      onEnd: (id) => void new InputFolder(inputRoot, id).remove(),
    });
    bell.on("denoise_jobs", (news) => {
      const [id = "", status] = news.split(" ");
      if (status === "queued") void this.#hear(id);
      else this.#news.delete(id);
      if (status === "cancel" || status === "deleted") void this.#queue.cancel(id);
    });
    bell.onUp(() => void this.#look());
  }

  get state(): Omit<WorkerState, "cards"> {
    const models = this.#options.models.all.filter(({ engine }) => engine.status === "ready");
    return {
      isDraining: this.#draining.signal.aborted,
      models: models.map(({ name }) => name),
      loadedModels: models.filter((model) => stateOf(model) === "loaded").map(({ name }) => name),
      loaded: this.#loaded,
      ...(this.#memory === Infinity ? {} : { memory: this.#memory }),
      places: this.#places.count,
      running: [...this.#queue.running],
    };
  }

  /** Notes what is on the device now, for which jobs wait that need it. */
  notePrepared(model: string, loras: readonly LoraUse[]): void {
    this.#loaded = { model, loras: lorasOf({ loras }) };
  }

  start(): void {
    this.#isStarted = true;
    const interval = () => lookInterval(this.#free.length, LOOK_MS);
    void repeat(this.#draining.signal, interval, () => this.#look());
    void repeat(this.#closing.signal, () => RENEW_MS, () => this.#renew());
    void this.#look();
  }

  /** Leaves the fleet: takes no more jobs, and gives back those that are not done after a time in milliseconds. */
  async close(graceMs: number): Promise<void> {
    this.#draining.abort();
    clearTimeout(this.#retry);
    // The jobs that are being claimed are known then; a database that is away gives none.
    await unlessAborted(AbortSignal.timeout(CLAIM_MS), this.#look()).catch(() => {});
    await this.#queue.close(graceMs);
    // What was claimed a moment ago is refused by the queue, and given back.
    await Promise.all(this.#starting.values());
    this.#closing.abort();
    await this.#records.close();
  }

  /** Bytes of the largest device that may be taken; Infinity where one of them does not tell. */
  get #memory(): number {
    const engines = this.#options.models.all.flatMap(({ engine }) =>
      engine.status === "ready" ? engine.engine : []
    );
    return Math.max(0, ...engines.map(({ info }) => info.deviceBytes ?? Infinity)) || Infinity;
  }

  /** Workers that could take a job, as far as is known. */
  get #free(): Worker[] {
    return this.#options.fleet.roster.workers
      .filter(({ running, places, isDraining }) => running.length < places && !isDraining);
  }

  /** Looks for a job that was queued, unless another worker is quicker. */
  async #hear(id: string): Promise<void> {
    this.#news.add(id);
    if (this.#news.size > 1 || !await pause(wakeDelay(this.#free.length), this.#draining.signal)) {
      return;
    }
    const isOpen = this.#news.size > 0;
    this.#news.clear();
    if (isOpen) await this.#look();
  }

  async #claimAll(): Promise<void> {
    const { signal } = this.#draining;
    try {
      while (this.#isStarted && !signal.aborted && await this.#claimOne());
    } catch (error) {
      // The database may be away; it is looked again.
      const { message } = error as Error;
      if (!signal.aborted) this.#options.fleet.log(`Cannot look for jobs: ${message}`);
    }
  }

  /** Resolves with whether there may be more. */
  async #claimOne(): Promise<boolean> {
    const { leases, fleet: { member } } = this.#options;
    const busy = this.#queue.running.length + this.#queue.waiting + this.#starting.size;
    if (busy >= this.#places.count) return false;
    const models = this.state.models
      .filter((model) => this.#places.hasRoomFor({ id: "", client: "", model }));
    const claimed = await leases.claim({
      models,
      memory: this.#memory,
      loaded: this.#loaded ?? undefined,
      warmElsewhere: this.#free.filter((one) => one.id !== member)
        .flatMap(({ loaded }) => loaded ? [loaded.model] : []),
    });
    if (typeof claimed !== "object") {
      clearTimeout(this.#retry);
      if (claimed !== undefined) this.#retry = setTimeout(() => void this.#look(), claimed);
      return false;
    }
    const { id } = claimed.record;
    this.#starting.set(id, this.#begin(claimed).finally(() => this.#starting.delete(id)));
    return true;
  }

  /** Fetches what a job needs, and queues it here. */
  async #begin({ record, client, model, deaths }: Claimed): Promise<void> {
    const { leases, models, runners, fleet: { log } } = this.#options;
    const { id } = record;
    try {
      leases.forget(id);
      if (deaths > 0) log(`${id} is run again: its worker stopped without a word`);
      const request = await this.#prepareRequest(record, model);
      const job = runners.again({ ...record, request });
      if (!job) {
        throw new ServiceError("refused", `Cannot run the job: no "${record.kind}" is known`);
      }
      const stop = this.#queue.watch(id, (event) => {
        if (event.type === "status" && isEnd(event.status)) stop();
        else this.#live.tell(id, event);
      });
      const routed = { client, ...(model === undefined ? {} : { model }) };
      const { outcome } = await this.#queue.add({ ...job, ...routed });
      this.#loaded = { model: model ?? models.first.name, loras: lorasOf(record.request) };
      outcome.catch((error) => toApiError(error, id, log)).finally(() => {
        leases.forget(id);
        void this.#look();
      });
    } catch (error) {
      // It is found to be nobody's work, and given back, when the database is there again.
      if (isAway(error)) return;
      if (isStopping(error)) await this.#records.update(id, { status: "queued" });
      else await this.#refuse(id, model, error);
    }
    void this.#look();
  }

  /** Leaves a job to workers that can run it; it fails where there are none. */
  async #refuse(id: string, model: string | undefined, error: unknown): Promise<void> {
    const { leases, inputRoot, fleet: { member, roster, log } } = this.#options;
    const others = roster.workers
      .filter((one) => one.id !== member && model !== undefined && one.models.includes(model));
    if (await leases.refuse(id, others.map((one) => one.id)).catch(() => false)) {
      log(`${id} is left to other workers: ${(error as Error).message}`);
    } else {
      await this.#records.update(id, endOf(error));
      toApiError(error, id, log);
    }
    await new InputFolder(inputRoot, id).remove();
  }

  /** The request with its files and LoRAs where this machine has them. */
  async #prepareRequest({ id, request }: JobRecord, name: string | undefined): Promise<unknown> {
    const { inputRoot, models, fleet: { database } } = this.#options;
    const folder = new InputFolder(inputRoot, id);
    await database.use((sql) => readInputs(sql, id, folder.path));
    const moved = moveFiles(request, (file) => folder.pathOf(file)) as { loras?: JobLora[] };
    const model = models.pick(name);
    const loras = await Promise.all((moved.loras ?? []).map(async (lora) => ({
      ...lora,
      file: await model.loras.find(lora.path),
    })));
    const local = { ...moved, loras };
    const { refusal } = await roomIn(model.engine.engine, roomRequest(local));
    if (refusal !== undefined) throw badRequest(refusal);
    return local;
  }

  async #renew(): Promise<void> {
    const { leases, fleet: { log } } = this.#options;
    const before = this.#queue.running;
    const held = await leases.renew();
    for (const { id, cancel } of held) if (cancel) await this.#queue.cancel(id);
    const ids = new Set(held.map(({ id }) => id));
    for (const id of before) {
      if (ids.has(id) || !this.#queue.running.includes(id)) continue;
      const { status } = await this.#records.get(id) ?? {};
      if (status !== undefined && status !== "in_progress") continue;
      leases.note(id).isLost = true;
      log(`${id} is another worker's by now: it is given up here`, { level: "warning" });
      await this.#queue.cancel(id);
    }
    // A claim whose answer was lost makes a job ours that nobody works on.
    for (const { id, age } of held) {
      const isKnown = this.#starting.has(id) ||
        [...this.#queue.running, ...this.#queue.order()].includes(id);
      if (isKnown || age < STRAY_MS) continue;
      const { status = "failed" } = await this.#records.get(id) ?? {};
      if (!isEnd(status)) await this.#records.update(id, { status: "queued" });
    }
  }
}
