/** What the GPUs of a server do, for operators. */

import { hostname } from "node:os";
import type { Scheduler } from "../engine/cards/scheduler.ts";
import { version } from "../generation/version.ts";
import type { Queue } from "./jobs/job.ts";
import { type ServedModels, stateOf } from "./served_models.ts";

/** A worker: one GPU, or a part of its time. */
export interface WorkerRecord {
  /** Unique among the workers of all servers. */
  id: string;
  /** What the record is. */
  object: "worker";
  /** Name of its machine. */
  host: string;
  /** Version of the program that it runs. */
  version: string;
  /** Number of the GPU on that machine, as `--gpus` takes it. */
  gpu: number;
  /** The adapter as the driver names it; null until it is open. */
  device: string | null;
  /** Whether the GPU waits for work, is at work, brings a model in, or is given no more work. */
  state: "idle" | "busy" | "loading" | "lost";
  /** Models that it may be given, and where they are. */
  models: { id: string; state: "loaded" | "loading" | "unloaded" | "failed" }[];
  /** The job that it works for. */
  job: string | null;
  /** Jobs that it was given and that have ended. */
  jobs_done: number;
  /** Images and videos that it made. */
  outputs_done: number;
  /** Share of the last minute in which it was at work, 0 to 1. */
  utilisation: number;
  /** What went wrong on it most lately. */
  last_error: string | null;
}

/** What workers are told from. */
interface WorkerServices {
  /** GPUs elsewhere, in place of this server's own. */
  readonly remote?: (() => WorkerRecord[]) | undefined;
  readonly cards: Scheduler | undefined;
  readonly models: ServedModels;
  readonly queue: Queue;
}

/** The state of the GPUs of a server, for operators. */
export class Workers {
  readonly #services: WorkerServices;
  #jobsDone = 0;

  /** @param services cards, or where there are none the models and the queue */
  constructor(services: WorkerServices) {
    this.#services = services;
    if (!services.cards) services.queue.onEnd(() => this.#jobsDone++);
  }

  /** The workers of this server, by number, or those elsewhere. */
  list(): WorkerRecord[] {
    const { remote, cards } = this.#services;
    if (remote) return remote();
    return cards ? describeCards(cards) : [this.#only()];
  }

  /** The record of an engine that somebody else made. */
  #only(): WorkerRecord {
    const { models, queue } = this.#services;
    const [job = null] = queue.running;
    const all = models.all.map((model) => ({ id: model.name, state: stateOf(model) }));
    const isLoading = all.some(({ state }) => state === "loading");
    return {
      ...head(0),
      device: null,
      state: job !== null ? "busy" : isLoading ? "loading" : "idle",
      models: all,
      job,
      jobs_done: this.#jobsDone,
      outputs_done: 0,
      utilisation: 0,
      last_error: models.first.engine.failure?.message ?? null,
    };
  }
}

/** A record for each card of a process. */
export function describeCards({ all }: Scheduler): WorkerRecord[] {
  return all.map((card) => ({
    ...head(card.id),
    device: card.name || null,
    state: card.state,
    models: [...card.models].map(([id, engine]) => ({ id, state: engine.residence })),
    job: card.job ?? null,
    jobs_done: card.jobsDone,
    outputs_done: card.outputsDone,
    utilisation: Number(card.utilisation.toFixed(3)),
    last_error: card.lastError ?? null,
  }));
}

function head(gpu: number): Pick<WorkerRecord, "id" | "object" | "host" | "version" | "gpu"> {
  const host = hostname();
  return { id: `${host}:${Deno.pid}:${gpu}`, object: "worker", host, version, gpu };
}
