/** Traces, as a collector of OpenTelemetry gets them from Deno. */

import { strict as assert } from "node:assert";
import type { JobRecord } from "../server/jobs/job_store.ts";

const PROGRAM = new URL("./fakes/traced.ts", import.meta.url).pathname;
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";
const PROMPT = "a secret lighthouse";

/** A span as OTLP has it in JSON, as far as it is looked at. */
interface Span {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: { stringValue?: string; intValue?: string } }[];
  status: { code: number; message: string };
}

/** Takes what is exported to it. */
class Collector {
  readonly bodies: string[] = [];
  readonly #server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    async (request) => {
      const body = await request.text();
      if (new URL(request.url).pathname === "/v1/traces") this.bodies.push(body);
      return Response.json({});
    },
  );

  /** Runs the program, which sends its spans here. */
  async run(args: readonly string[], on = true): Promise<string> {
    const { stdout, stderr, success } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", PROGRAM, ...args],
      env: {
        OTEL_DENO: String(on),
        OTEL_SERVICE_NAME: "denoise",
        OTEL_DENO_CONSOLE: "ignore",
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${this.#server.addr.port}`,
      },
    }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout);
  }

  /** Our own spans, without those that Deno makes of every request. */
  get spans(): Span[] {
    type Body = { resourceSpans: { scopeSpans: { scope: { name: string }; spans: Span[] }[] }[] };
    return this.bodies.flatMap((body) => (JSON.parse(body) as Body).resourceSpans)
      .flatMap(({ scopeSpans }) => scopeSpans)
      .flatMap(({ scope, spans }) => scope.name === "denoise" ? spans : []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

function attributesOf({ attributes }: Span): Record<string, string | undefined> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? String(Object.values(value)[0])]),
  );
}

Deno.test("a request's trace goes on in the process that runs its job, with a span for each stage", async () => {
  await using collector = new Collector();
  const traceparent = `00-${TRACE}-${CALLER}-01`;
  const printed = await collector.run(["front", traceparent, PROMPT]);
  const record = JSON.parse(printed) as JobRecord;
  const spans = collector.spans;
  const tree = (parent: string): string[] =>
    spans.filter(({ parentSpanId }) => parentSpanId === parent)
      .sort((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)))
      .map(({ name, spanId }) => [name, ...tree(spanId)].join(" "));
  assert.deepEqual(tree(CALLER), [
    "POST /v1/images/generations queued generate prepare load encode denoise decode store",
  ]);
  for (const span of spans) {
    assert.equal(span.traceId, TRACE, span.name);
    assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), span.name);
    assert.notEqual(span.status.code, 2, span.name);
  }
  const request = spans.find(({ parentSpanId }) => parentSpanId === CALLER)!;
  assert.equal(request.kind, 2);
  const { "http.route": route, "denoise.job.id": job } = attributesOf(request);
  assert.deepEqual([route, job], ["/v1/images/generations", record.id]);

  collector.bodies.length = 0;
  await collector.run(["worker", printed]);
  const again = collector.spans;
  assert.deepEqual(again.map(({ name }) => name), [
    "queued",
    "prepare",
    "load",
    "encode",
    "generate",
  ]);
  const generate = again.at(-1)!;
  assert.equal(generate.traceId, TRACE);
  assert.equal(generate.parentSpanId, request.spanId);
  assert.deepEqual([generate.status.code, generate.status.message], [2, "internal_error"]);
  const queued = again[0]!;
  const since = Number(BigInt(queued.startTimeUnixNano) / 1_000_000n);
  assert.ok(Math.abs(since - record.createdAt) <= 1, `${since} for ${record.createdAt}`);
  assert.ok(!collector.bodies.join().includes(PROMPT));
});

Deno.test("nothing is traced, and nothing of traces is kept, where they are off", async () => {
  await using collector = new Collector();
  const record = JSON.parse(
    await collector.run(["front", `00-${TRACE}-${CALLER}-01`, PROMPT], false),
  );
  assert.equal(collector.bodies.length, 0);
  assert.equal(record.status, "completed");
  assert.ok(!("traceparent" in record.request));
});
