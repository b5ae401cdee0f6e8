/**
 * Traces by OpenTelemetry, which Deno has built in: `OTEL_DENO=true` turns them on, and the other
 * variables of OpenTelemetry say where they go. Without it nothing of this is loaded.
 *
 * A trace goes on in whichever process a job runs: what leads to it is kept with the job, as the
 * `traceparent` of W3C's Trace Context.
 */

import type { Context, SpanStatusCode, Tracer } from "@opentelemetry/api";
import type { Context as AppContext, MiddlewareHandler } from "hono";
import type { AppEnv } from "../services.ts";
import { endOf } from "../jobs/job.ts";
import { StageClock } from "../jobs/outputs.ts";

/** The part of OpenTelemetry's API that is used. */
type Api = typeof import("@opentelemetry/api");

/** Values that searches find a span by; never what a client wrote. */
export type SpanAttributes = Readonly<Record<string, string | number>>;

/** How a span begins. */
export interface SpanStart {
  /** The span that it belongs to, as a `traceparent`; what is under way by default. */
  readonly parent?: string | undefined;
  /** When it began, in Unix milliseconds; now by default. */
  readonly at?: number;
  /** Whether the span answers a request of another process. */
  readonly isServer?: boolean;
  readonly attributes?: SpanAttributes;
}

export interface SpanEnd {
  /** When it ended, in Unix milliseconds; now by default. */
  readonly at?: number;
  /** A word for why it failed. */
  readonly failure?: string;
  /** A name that is known by now. */
  readonly name?: string;
  /** What is known by now. */
  readonly attributes?: SpanAttributes;
}

/** Something that takes its time. */
export interface TracedSpan {
  /** Leads to it, for what belongs to it. */
  readonly traceparent: string;
  /** Does something as a part of it. */
  run<T>(work: () => T): T;
  end(end?: SpanEnd): void;
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

export class Tracing {
  readonly #api: Api;
  readonly #tracer: Tracer;

  constructor(api: Api) {
    this.#api = api;
    this.#tracer = api.trace.getTracer("denoise");
  }

  /** Leads to the span that is under way, if there is one. */
  get current(): string | undefined {
    const { trace } = this.#api;
    const context = trace.getActiveSpan()?.spanContext();
    return context && traceparentOf(context);
  }

  /** Begins a span, which is under way within its `run()` only; its name has few values. */
  begin(name: string, { parent, at, isServer, attributes }: SpanStart = {}): TracedSpan {
    const { context, trace, SpanKind } = this.#api;
    const kind = isServer ? SpanKind.SERVER : SpanKind.INTERNAL;
    const from = parent === undefined ? context.active() : this.#remote(parent);
    const span = this.#tracer.startSpan(
      name,
      { kind, ...(at === undefined ? {} : { startTime: at }), ...(attributes && { attributes }) },
      from,
    );
    const own = trace.setSpan(from, span);
    return {
      traceparent: traceparentOf(span.spanContext()),
      run: (work) => context.with(own, work),
      end: ({ at, failure, name, attributes } = {}) => {
        if (name !== undefined) span.updateName(name);
        if (attributes) span.setAttributes(attributes);
        if (failure !== undefined) {
          span.setStatus({ code: 2 satisfies SpanStatusCode.ERROR, message: failure });
        }
        span.end(at);
      },
    };
  }

  /** What lies in another process. */
  #remote(traceparent: string): Context {
    const { ROOT_CONTEXT, trace } = this.#api;
    const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent) ?? [];
    if (!traceId || !spanId || !flags) return ROOT_CONTEXT;
    const traceFlags = parseInt(flags, 16);
    return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
  }
}

/** Nothing without `OTEL_DENO=true`. */
export async function openTracing(): Promise<Tracing | undefined> {
  if (!["true", "1"].includes(Deno.env.get("OTEL_DENO") ?? "")) return undefined;
  return new Tracing(await import("@opentelemetry/api"));
}

function traceparentOf(
  { traceId, spanId, traceFlags }: { traceId: string; spanId: string; traceFlags: number },
): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}

/** Spans go on the client's trace, if it sent one; `routeOf` gives the pattern of a path once it is answered. */
export function tracedRequests(
  tracing: Tracing,
  routeOf: (c: AppContext<AppEnv>) => string | undefined,
): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const { method } = c.req;
    const parent = c.req.header("traceparent");
    const attributes = { "http.request.method": method };
    const span = tracing.begin(method, { parent, isServer: true, attributes });
    try {
      await span.run(next);
    } finally {
      const { status } = c.res;
      const route = routeOf(c);
      const job = c.get("job");
      span.end({
        ...(route === undefined ? {} : { name: `${method} ${route}` }),
        ...(status >= 500 ? { failure: String(status) } : {}),
        attributes: {
          "http.response.status_code": status,
          ...(route === undefined ? {} : { "http.route": route }),
          ...(job === undefined ? {} : { "denoise.job.id": job }),
        },
      });
    }
  };
}

export interface TracedJob {
  readonly id: string;
  readonly kind: string;
  readonly model: string;
  /** When it was queued, in Unix milliseconds. */
  readonly queuedAt: number;
  /** Leads to the request that it came with; nothing where that was not traced. */
  readonly traceparent: string | undefined;
}

/** Does the work of a job within its spans, where there is tracing. */
export async function tracedJob<T>(
  tracing: Tracing | undefined,
  { id, kind, model, queuedAt, traceparent: parent }: TracedJob,
  work: (stages: StageClock) => Promise<T>,
): Promise<T> {
  if (!tracing) return await work(new StageClock());
  const attributes = { "denoise.job.id": id, "denoise.job.kind": kind, "denoise.model": model };
  tracing.begin("queued", { parent, at: queuedAt, attributes }).end();
  const span = tracing.begin("generate", { parent, attributes });
  const stages = new StageClock((stage, from, to) =>
    tracing.begin(stage, { parent: span.traceparent, at: from }).end({ at: to })
  );
  try {
    const outcome = await span.run(() => work(stages));
    stages.enter();
    span.end();
    return outcome;
  } catch (error) {
    stages.enter();
    const { status, error: reason } = endOf(error);
    span.end({ failure: reason?.code ?? status ?? "failed" });
    throw error;
  }
}
