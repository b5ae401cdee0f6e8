/**
 * A member of a fleet that runs jobs: it claims what its queue has a place for, says that it lives
 * while they run, and records what came of them.
 */

import { LRUCache } from "lru-cache";
import type { LoraUse } from "../engine/types.ts";
import { ApiError, badRequest } from "../server/contract/errors.ts";
import { InputFolder } from "../server/inputs/input_folder.ts";
import { isEnd, type NewJob } from "../server/jobs/job.ts";
import { isStopping } from "../server/jobs/job_end.ts";
import { JobQueue } from "../server/jobs/job_queue.ts";
import type { JobRecord } from "../server/jobs/job_store.ts";
import { EqualPlaces, type Places } from "../server/jobs/places.ts";
import { unlessAborted } from "../server/jobs/unless_aborted.ts";
import { WriteBehindStore } from "../server/jobs/write_behind.ts";
import type { JobLora } from "../server/contract/lora_requests.ts";
import type { Log } from "../server/log.ts";
import { answerOf, toApiError } from "../server/http/respond.ts";
import type { Runners } from "../server/runners.ts";
import { type ServedModel, type ServedModels, stateOf } from "../server/served_models.ts";
import { ServiceError } from "../server/service_error.ts";
import type { Bell } from "./bell.ts";
import { claim, type Claimed, refuse, renew } from "./claims.ts";
import { lookInterval, wakeDelay } from "./crowd.ts";
import { type Database, isAway } from "./database.ts";
import { moveFiles, readInputs } from "./input_parts.ts";
import type { LeaseStore } from "./lease_store.ts";
import { Live } from "./live.ts";
import { lorasOf } from "./loras_of.ts";
import type { PostgresJobStore } from "./postgres_store.ts";
import { roomRequest } from "./room_request.ts";
import type { Member, MemberState, Roster } from "./roster.ts";

/** How often it is looked for jobs of which no news came, in milliseconds. */
const LOOK_MS = 1000;
/** How long a claim under way may take when the worker leaves, in milliseconds. */
const CLAIM_MS = 2000;
/** How often it says that its jobs are its own, in milliseconds: several times in a lease. */
const RENEW_MS = 1500;

/** What a worker of a fleet works with. */
export interface FleetWorkerOptions {
  /** The shared database. */
  readonly database: Database;
  /** Records in it. */
  readonly store: PostgresJobStore;
  /** Tells of jobs. */
  readonly bell: Bell;
  /** Who else works. */
  readonly roster: Roster;
  /** Id of this member. */
  readonly member: string;
  /** Models that it serves. */
  readonly models: ServedModels;
  /** What jobs do. */
  readonly runners: Runners;
  /** Where jobs run; one at a time when left out. */
  readonly places?: Places;
  /** Holds the files of jobs while they run. */
  readonly inputRoot: string;
  /** Takes lines for the log. */
  readonly log: Log;
  /** Records of the claimed jobs, which must learn of their ends first. */
  readonly leases: LeaseStore;
}

/** A member of a fleet that runs jobs. */
export class FleetWorker {
  readonly #options: FleetWorkerOptions;
  readonly #records: WriteBehindStore;
  readonly #places: Places;
  readonly #queue: JobQueue;
  readonly #live: Live;
  /** Ids of claimed jobs that are not in the queue yet. */
  readonly #starting = new Set<string>();
  /** Resolve when they are, or are given back. */
  readonly #begun = new Map<string, Promise<void>>();
  /** Ids that the database says are this worker's, and the queue knows nothing of. */
  #strays = new Set<string>();
  /** Ids of jobs that were queued, and that no worker is known to have taken. */
  readonly #news = new Set<string>();
  /** Ids of jobs that were to be cancelled lately: one may be claimed, and not be in the queue yet. */
  readonly #unwanted = new LRUCache<string, true>({ max: 1000 });
  #loaded: MemberState["loaded"] = null;
  #finished = 0;
  #isLooking = false;
  #looking: Promise<void> = Promise.resolve();
  #isAsked = false;
  #isDraining = false;
  #isStarted = false;
  #timers = new Map<string, ReturnType<typeof setTimeout>>();

  /** @param options database, models and what is done with them */
  constructor(options: FleetWorkerOptions) {
    this.#options = options;
    const { database, leases, log, bell, inputRoot } = options;
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
      if (status === "queued") this.#hear(id);
      else this.#news.delete(id);
      if (status !== "cancel" && status !== "deleted") return;
      this.#unwanted.set(id, true);
      void this.#queue.cancel(id);
    });
    bell.onUp(() => void this.#look());
  }

  /** How it is, for the others. */
  get state(): Omit<MemberState, "version" | "kind" | "cards"> {
    const { all } = this.#options.models;
    const models = all.filter(({ engine }) => engine.status === "ready");
    return {
      isDraining: this.#isDraining,
      models: models.map(({ name }) => name),
      loadedModels: models.filter((model) => stateOf(model) === "loaded").map(({ name }) => name),
      loaded: this.#loaded,
      ...(this.#memory === Infinity ? {} : { memory: this.#memory }),
      places: this.#places.count,
      running: [...this.#queue.running],
      finished: this.#finished,
    };
  }

  /** Notes what is on the device now, for which jobs wait that need it. */
  notePrepared(model: string, loras: readonly LoraUse[]): void {
    this.#loaded = { model, loras: lorasOf({ loras }) };
  }

  /** Begins to claim jobs. */
  start(): void {
    this.#isStarted = true;
    this.#repeat("look", () => lookInterval(this.#free.length, LOOK_MS), () => this.#look());
    this.#repeat("renew", () => RENEW_MS, () => this.#renew());
    void this.#look();
  }

  /**
   * Leaves the fleet: takes no more jobs, and gives back those that are not done in time.
   *
   * @param graceMs how long they may go on, in milliseconds
   */
  async close(graceMs: number): Promise<void> {
    this.#isDraining = true;
    clearTimeout(this.#timers.get("look"));
    // What is being claimed is known then; a database that is away gives nothing.
    await unlessAborted(AbortSignal.timeout(CLAIM_MS), this.#looking).catch(() => {});
    await this.#queue.close(graceMs);
    // What was claimed a moment ago is refused by the queue, and given back.
    for (const id of this.#starting) await this.#begun.get(id);
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
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
  get #free(): Member[] {
    return this.#options.roster.workers
      .filter(({ running, places, isDraining }) => running.length < places && !isDraining);
  }

  /** Looks for a job that was queued, unless another worker is quicker. */
  #hear(id: string): void {
    if (this.#isDraining) return;
    this.#news.add(id);
    if (this.#news.size > 1) return;
    this.#later("news", wakeDelay(this.#free.length), async () => {
      const isOpen = this.#news.size > 0;
      this.#news.clear();
      if (isOpen) await this.#look();
    });
  }

  /** Claims as many jobs as there are places for. */
  async #look(): Promise<void> {
    this.#isAsked = true;
    if (this.#isLooking || !this.#isStarted) return;
    this.#isLooking = true;
    await (this.#looking = this.#claimAll());
  }

  async #claimAll(): Promise<void> {
    try {
      while (this.#isAsked) {
        this.#isAsked = false;
        while (!this.#isDraining && await this.#claimOne());
      }
    } catch (error) {
      // The database may be away; it is looked again.
      if (!this.#isDraining) this.#options.log(`Cannot look for jobs: ${(error as Error).message}`);
    } finally {
      this.#isLooking = false;
    }
  }

  /** Resolves with whether there may be more. */
  async #claimOne(): Promise<boolean> {
    const { database, member } = this.#options;
    const busy = this.#queue.running.length + this.#queue.waiting + this.#starting.size;
    if (busy >= this.#places.count) return false;
    const models = this.state.models
      .filter((model) => this.#places.hasRoomFor({ id: "", client: "", model }));
    const { job, retryMs } = await claim(database, member, {
      models,
      memory: this.#memory,
      loaded: this.#loaded ?? undefined,
      warmElsewhere: this.#free.filter((one) => one.id !== member)
        .flatMap(({ loaded }) => loaded ? [loaded.model] : []),
    });
    if (!job) {
      if (retryMs !== undefined) this.#later("retry", retryMs, () => this.#look());
      return false;
    }
    const { id } = job.record;
    this.#starting.add(id);
    this.#begun.set(id, this.#begin(job).finally(() => this.#begun.delete(id)));
    return true;
  }

  /** Fetches what a job needs, and queues it here. */
  async #begin({ record, client, model, deaths }: Claimed): Promise<void> {
    const { database, log, leases, member, runners } = this.#options;
    const { id } = record;
    try {
      leases.forget(id);
      if (deaths > 0) log(`${id} is run again: its worker stopped without a word`);
      const request = await this.#prepareRequest(record, model);
      const job = runners.again({ ...record, request });
      if (!job) {
        throw new ServiceError("refused", `Cannot run the job: no "${record.kind}" is known`);
      }
      const { outcome } = await this.#queue.add(this.#watched(job, client, model));
      if (this.#unwanted.has(id)) void this.#queue.cancel(id);
      this.#loaded = {
        model: model ?? this.#options.models.first.name,
        loras: lorasOf(record.request),
      };
      outcome.then(() => this.#finished++, (error) => toApiError(error, id, log))
        .finally(() => {
          leases.forget(id);
          void this.#look();
        });
    } catch (error) {
      // It is found to be nobody's work, and given back, when the database is there again.
      if (isAway(error)) return;
      if (isStopping(error)) {
        await this.#records.update(id, { status: "queued", progress: 0, startedAt: null });
        return;
      }
      const reason = error instanceof ServiceError ? answerOf(error) : error;
      const others = this.#options.roster.workers
        .filter((one) => one.id !== member && model !== undefined && one.models.includes(model));
      if (await refuse(database, member, id, others.map((one) => one.id)).catch(() => false)) {
        log(`${id} is left to other workers: ${(error as Error).message}`);
      } else {
        const isOurs = reason instanceof ApiError;
        leases.failsWith(id, isOurs ? reason.status : 500);
        await this.#records.update(id, {
          status: "failed",
          endedAt: Date.now(),
          error: {
            code: isOurs ? reason.code ?? "failed" : "internal_error",
            message: isOurs ? reason.message : "Cannot finish the job: an internal error occurred",
          },
        });
        if (!isOurs) toApiError(error, id, log);
      }
      await new InputFolder(this.#options.inputRoot, id).remove();
    } finally {
      this.#starting.delete(id);
    }
    void this.#look();
  }

  /** The request with its files and LoRAs where this machine has them. */
  async #prepareRequest({ id, request }: JobRecord, name: string | undefined): Promise<unknown> {
    const { database, inputRoot, models } = this.#options;
    const folder = new InputFolder(inputRoot, id);
    await database.use((sql) => readInputs(sql, id, folder.path));
    const moved = moveFiles(request, (file) => folder.pathOf(file)) as { loras?: JobLora[] };
    const model = (name === undefined ? undefined : models.find(name)) ?? models.first;
    const loras = await Promise.all((moved.loras ?? []).map(async (lora) => ({
      ...lora,
      file: await model.loras.find(lora.path),
    })));
    const local = { ...moved, loras };
    await requireRoom(model, local);
    return local;
  }

  /** A job whose progress the fleet hears of, and whose files stay where another worker makes it anew. */
  #watched(job: NewJob<unknown>, client: string, model: string | undefined): NewJob<unknown> {
    const { leases } = this.#options;
    const { id, work, discard } = job;
    const stop = this.#queue.watch(id, (event) => {
      if (event.type === "status" && isEnd(event.status)) stop();
      else this.#live.tell(id, event);
    });
    return {
      ...job,
      ...{ client, isRecorded: true },
      ...(model === undefined ? {} : { model }),
      work: (context) =>
        work(context).catch((error) => {
          const reason = error instanceof ServiceError ? answerOf(error) : error;
          if (reason instanceof ApiError) leases.failsWith(id, reason.status);
          throw error;
        }),
      discard: async (outcome) => {
        if (!leases.isLost(id)) await discard?.(outcome);
      },
    };
  }

  /** Keeps what runs, and ends what was cancelled or is another's. */
  async #renew(): Promise<void> {
    const { database, member, leases, log } = this.#options;
    const before = new Set(this.#queue.running);
    const { ids, cancelled } = await renew(database, member);
    for (const id of cancelled) await this.#queue.cancel(id);
    for (const id of before) {
      if (ids.has(id) || !this.#queue.running.includes(id)) continue;
      const now = await this.#records.get(id);
      if (now !== undefined && (now.status === "queued" || isEnd(now.status))) continue;
      leases.lose(id);
      log(`${id} is another worker's by now: it is given up here`, { level: "warning" });
      await this.#queue.cancel(id);
    }
    await this.#giveBackStrays(ids);
  }

  /** A claim whose answer was lost makes a job ours that nobody works on. */
  async #giveBackStrays(ids: ReadonlySet<string>): Promise<void> {
    const { database, member } = this.#options;
    const unknown = new Set<string>();
    for (const id of ids) {
      if (this.#starting.has(id) || this.#queue.running.includes(id)) continue;
      if (this.#queue.order().includes(id)) continue;
      const { status = "failed" } = await this.#records.get(id) ?? {};
      if (!isEnd(status)) unknown.add(id);
    }
    for (const id of unknown) {
      // It may have been claimed a moment ago.
      if (!this.#strays.has(id)) continue;
      await database.use((sql) =>
        sql`UPDATE denoise_jobs SET status = 'queued', owner = NULL, started_at = NULL
          WHERE id = ${id} AND owner = ${member} AND status = 'in_progress'`
      );
      unknown.delete(id);
    }
    this.#strays = unknown;
  }

  #later(name: string, ms: number, work: () => Promise<void>): void {
    clearTimeout(this.#timers.get(name));
    this.#timers.set(name, setTimeout(() => void work().catch(() => {}), ms));
  }

  #repeat(name: string, ms: () => number, work: () => Promise<void>): void {
    this.#later(name, ms(), async () => {
      // The database may be away; whatever it is, the next time comes.
      await work().catch(() => {});
      if (this.#timers.has(name) && !(name === "look" && this.#isDraining)) {
        this.#repeat(name, ms, work);
      }
    });
  }
}

/** Refuses what the model cannot make on this machine; another worker's may be larger. */
async function requireRoom({ engine }: ServedModel, request: unknown): Promise<void> {
  try {
    await engine.engine.checkRoom(roomRequest(request));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw badRequest(error.message.split("\n")[0]!);
  }
}
