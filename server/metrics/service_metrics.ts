/** What a server measures of itself. No label takes its values from clients. */

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { EngineState } from "../served_models.ts";
import type { Queue } from "../jobs/job.ts";
import type { JobEntry, JobStore } from "../jobs/job_store.ts";
import { RecordsBusyError } from "../contract/errors.ts";
import type { StageSeconds } from "../jobs/outputs.ts";

const REQUEST_SECONDS = [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
const JOB_SECONDS = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];
const STAGE_SECONDS = [0.1, ...JOB_SECONDS];
const METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

interface MeasuredServices {
  readonly engine: EngineState;
  readonly store: JobStore;
  readonly queue: Queue;
}

interface MeasuredRequest {
  /** Pattern of its path, or undefined when there is none. */
  route: string | undefined;
  /** Method as the client wrote it. */
  method: string;
  status: number;
  /** Seconds from the request to the head of the answer. */
  seconds: number;
}

export class ServiceMetrics {
  /** Each server has its own: a process may have several. */
  readonly #registry = new Registry();
  readonly #requests = new Counter({
    name: "denoise_http_requests_total",
    help: "Requests that were answered.",
    labelNames: ["route", "method", "status"],
    registers: [this.#registry],
  });
  readonly #requestSeconds = new Histogram({
    name: "denoise_http_request_duration_seconds",
    help: "Time from a request to the head of its answer.",
    labelNames: ["route", "method"],
    buckets: REQUEST_SECONDS,
    registers: [this.#registry],
  });
  readonly #ended = new Counter({
    name: "denoise_jobs_ended_total",
    help: "Jobs that ended, by how.",
    labelNames: ["kind", "status"],
    registers: [this.#registry],
  });
  readonly #jobSeconds = new Histogram({
    name: "denoise_job_duration_seconds",
    help: "Time that completed jobs ran.",
    labelNames: ["kind"],
    buckets: JOB_SECONDS,
    registers: [this.#registry],
  });
  readonly #waitSeconds = new Histogram({
    name: "denoise_job_wait_seconds",
    help: "Time that jobs waited before they began.",
    labelNames: ["kind"],
    buckets: STAGE_SECONDS,
    registers: [this.#registry],
  });
  readonly #stageSeconds = new Histogram({
    name: "denoise_job_stage_duration_seconds",
    help: "Time that completed jobs spent in each stage; load is that of models.",
    labelNames: ["kind", "stage"],
    buckets: STAGE_SECONDS,
    registers: [this.#registry],
  });
  readonly #failures = new Counter({
    name: "denoise_job_failures_total",
    help: "Jobs that failed, by why.",
    labelNames: ["kind", "code"],
    registers: [this.#registry],
  });
  #peakBytes = 0;

  constructor({ engine, store, queue }: MeasuredServices) {
    this.#jobGauge(store);
    this.#gauge("denoise_queue_waiting", "Jobs that wait.", () => queue.waiting);
    this.#gauge("denoise_queue_places", "Jobs that can run at once.", () => queue.places);
    this.#gauge(
      "denoise_queue_oldest_age_seconds",
      "Time that the job has waited that was queued first; 0 where none waits.",
      async () => {
        const filter = { statuses: ["queued"], order: "asc", limit: 1 } as const;
        const [oldest] = await store.list(filter).catch(unlessBusy) ?? [{ createdAt: NaN }];
        return oldest ? Math.max(0, Date.now() - oldest.createdAt) / 1000 : 0;
      },
    );
    this.#gauge("denoise_queue_running", "Jobs that run.", () => queue.running.length);
    this.#gauge(
      "denoise_model_ready",
      "Whether the model is loaded.",
      () => engine.status === "ready" ? 1 : 0,
    );
    this.#gauge(
      "denoise_device_memory_peak_bytes",
      "Most device memory that a job took.",
      () => this.#peakBytes,
    );
    this.#gauge(
      "process_resident_memory_bytes",
      "Memory of the process.",
      () => Deno.memoryUsage().rss,
    );
  }

  /** Media type of {@link text}. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  request({ route = "none", method, status, seconds }: MeasuredRequest): void {
    const known = METHODS.includes(method) ? method : "other";
    this.#requests.inc({ route, method: known, status });
    this.#requestSeconds.observe({ route, method: known }, seconds);
  }

  job({ kind, status, createdAt, startedAt, endedAt, result, error }: JobEntry): void {
    this.#ended.inc({ kind, status });
    if (startedAt !== null) {
      this.#waitSeconds.observe({ kind }, Math.max(0, startedAt - createdAt) / 1000);
    }
    if (status === "failed") this.#failures.inc({ kind, code: error?.code ?? "unknown" });
    if (status !== "completed" || startedAt === null || endedAt === null) return;
    this.#jobSeconds.observe({ kind }, Math.max(0, endedAt - startedAt) / 1000);
    const { peakBytes, stageSeconds = {} } = result as {
      peakBytes?: number;
      stageSeconds?: StageSeconds;
    };
    for (const [stage, seconds] of Object.entries(stageSeconds)) {
      this.#stageSeconds.observe({ kind, stage }, seconds);
    }
    this.#peakBytes = Math.max(this.#peakBytes, peakBytes ?? 0);
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** A number that is looked up when it is asked for. */
  #gauge(name: string, help: string, read: () => number | Promise<number>): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      async collect() {
        this.set(await read());
      },
    });
  }

  #jobGauge(store: JobStore): void {
    new Gauge({
      name: "denoise_jobs",
      help: "Jobs on record, by where they are.",
      labelNames: ["kind", "status"],
      registers: [this.#registry],
      async collect() {
        const counts = await store.counts().catch(unlessBusy);
        this.reset();
        for (const { kind, status, count } of counts ?? []) this.set({ kind, status }, count);
      },
    });
  }
}

/** Where records cannot be read for a while, all else is told. */
function unlessBusy(error: unknown): undefined {
  if (!(error instanceof RecordsBusyError)) throw error;
}
