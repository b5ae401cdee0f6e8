/**
 * What a server measures of itself. No label takes its values from clients.
 *
 * @module
 */

import type { EngineState } from "../engine_state.ts";
import type { JobQueue } from "../jobs/job_queue.ts";
import type { JobCount, JobEntry, JobStore } from "../jobs/job_store.ts";
import { Counter, Gauge, Histogram } from "./registry.ts";

const REQUEST_SECONDS = [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
const JOB_SECONDS = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];
const METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** What is measured. */
export interface MeasuredServices {
  /** The model. */
  readonly engine: EngineState;
  /** Records of jobs. */
  readonly store: JobStore;
  /** Jobs that wait and run. */
  readonly queue: JobQueue;
}

/** One answered request. */
export interface MeasuredRequest {
  /** Pattern of its path, or undefined when there is none. */
  route: string | undefined;
  /** As the client wrote it. */
  method: string;
  /** Of the answer. */
  status: number;
  /** From the request to the head of the answer. */
  seconds: number;
}

/** The metrics of a server. */
export class ServiceMetrics {
  readonly #requests = new Counter("denoise_http_requests_total", "Requests that were answered.", [
    "route",
    "method",
    "status",
  ]);
  readonly #requestSeconds = new Histogram(
    "denoise_http_request_duration_seconds",
    "Time from a request to the head of its answer.",
    ["route", "method"],
    REQUEST_SECONDS,
  );
  readonly #ended = new Counter("denoise_jobs_ended_total", "Jobs that ended, by how.", [
    "kind",
    "status",
  ]);
  readonly #jobSeconds = new Histogram(
    "denoise_job_duration_seconds",
    "Time that completed jobs ran.",
    ["kind"],
    JOB_SECONDS,
  );
  readonly #store: JobStore;
  readonly #gauges: readonly Gauge[];
  #counts: readonly JobCount[] = [];
  #peakBytes = 0;

  /** @param services what gauges look at */
  constructor({ engine, store, queue }: MeasuredServices) {
    this.#store = store;
    const one = (value: number) => [[[], value]] as const;
    this.#gauges = [
      new Gauge(
        "denoise_jobs",
        "Jobs on record, by where they are.",
        ["kind", "status"],
        () => this.#counts.map(({ kind, status, count }) => [[kind, status], count]),
      ),
      new Gauge("denoise_queue_waiting", "Jobs that wait.", [], () => one(queue.waiting)),
      new Gauge(
        "denoise_queue_running",
        "Jobs that run.",
        [],
        () => one(queue.running === undefined ? 0 : 1),
      ),
      new Gauge(
        "denoise_model_ready",
        "Whether the model is loaded.",
        [],
        () => one(engine.status === "ready" ? 1 : 0),
      ),
      new Gauge(
        "denoise_device_memory_peak_bytes",
        "Most device memory that a job took.",
        [],
        () => this.#peakBytes > 0 ? one(this.#peakBytes) : [],
      ),
      new Gauge(
        "process_resident_memory_bytes",
        "Memory of the process.",
        [],
        () => one(Deno.memoryUsage().rss),
      ),
    ];
  }

  /** Counts a request. */
  request({ route = "none", method, status, seconds }: MeasuredRequest): void {
    const known = METHODS.includes(method) ? method : "other";
    this.#requests.add(route, known, String(status));
    this.#requestSeconds.observe(seconds, route, known);
  }

  /** Counts a job that has ended. */
  job({ kind, status, startedAt, endedAt, result }: JobEntry): void {
    this.#ended.add(kind, status);
    if (status !== "completed" || startedAt === null || endedAt === null) return;
    this.#jobSeconds.observe((endedAt - startedAt) / 1000, kind);
    const { peakBytes } = result as { peakBytes?: number };
    this.#peakBytes = Math.max(this.#peakBytes, peakBytes ?? 0);
  }

  /** All metrics in the format of Prometheus. */
  async text(): Promise<string> {
    this.#counts = await this.#store.counts();
    const metrics = [this.#requests, this.#requestSeconds, this.#ended, this.#jobSeconds];
    return [...metrics, ...this.#gauges].map((metric) => metric.text()).join("");
  }
}
