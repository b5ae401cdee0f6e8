/** How fast the server answers while its GPU works. */

import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import type { Figures } from "./figures.ts";
import { denoPath, ROOT } from "./machine.ts";
import { IMAGE } from "./models.ts";
import { median, percentile } from "../../report/statistics.ts";

/** How long each part goes on. */
interface ServerSeconds {
  idle: number;
  generating: number;
  throughput: number;
}

/** Long enough for a thousand answers while some images are made. */
const SERVER_SECONDS: ServerSeconds = { idle: 2, generating: 15, throughput: 3 };

/** Time between two questions, in milliseconds. */
const INTERVAL_MS = 10;

/** Connections that ask at once when answers per second are counted. */
const CONNECTIONS = 8;

/**
 * Starts the server as a process of its own, as users do, and asks it while it is idle and while it makes images.
 *
 * @throws {Error} when the server does not start, or answers anything but 200
 */
export async function benchServer(
  log: (line: string) => void,
  seconds: ServerSeconds = SERVER_SECONDS,
): Promise<Figures> {
  const folder = await Deno.makeTempDir({ prefix: "denoise-bench-" });
  let server: ServerProcess | undefined;
  try {
    server = await startServer(folder);
    log(`server: idle for ${seconds.idle} s`);
    await probe(`${server.url}/health`, until(1));
    const idle = await probe(`${server.url}/health`, until(seconds.idle));
    log(`server: generating for ${seconds.generating} s`);
    await makePicture(server.url, 0);
    const isDone = until(seconds.generating);
    const [images, busy] = await Promise.all([
      makePictures(server.url, isDone),
      probe(`${server.url}/health`, isDone),
    ]);
    log(`server: ${busy.length} answers beside ${images} images`);
    const rate = await countAnswers(`${server.url}/v1/models`, seconds.throughput);
    return {
      "/health p50 idle": { value: median(idle), unit: "ms" },
      "/health p99 idle": { value: percentile(idle, 0.99), unit: "ms" },
      "/health p50 while generating": { value: median(busy), unit: "ms" },
      "/health p99 while generating": { value: percentile(busy, 0.99), unit: "ms" },
      "/health longest while generating": { value: percentile(busy, 1), unit: "ms" },
      "images beside the questions": { value: images / seconds.generating, unit: "/s" },
      "/v1/models answers": { value: rate, unit: "/s" },
    };
  } finally {
    await server?.stop();
    await Deno.remove(folder, { recursive: true });
  }
}

interface ServerProcess {
  url: string;
  stop(): Promise<void>;
}

/** The command line's server on a free port, once its model is loaded. */
async function startServer(folder: string): Promise<ServerProcess> {
  const args = ["serve", "--port", "0", "--output-path", join(folder, "outputs")];
  const child = new Deno.Command(denoPath(), {
    args: ["run", "-A", "--config", join(ROOT, "deno.json"), join(ROOT, "cli.ts"), ...args],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const said: string[] = [];
  const address = Promise.withResolvers<string>();
  const lines = createInterface({
    input: Readable.fromWeb(child.stderr as NodeReadableStream<Uint8Array>),
  });
  lines.on("line", (line) => {
    if (said.length < 20) said.push(line);
    const url = /^Ready: .* on (http:\S+)$/.exec(line)?.[1];
    if (url !== undefined) address.resolve(url);
  });
  const stop = async () => {
    child.kill("SIGTERM");
    await child.status;
    lines.close();
  };
  child.status.then(({ code }) =>
    address.reject(new Error(`Cannot bench the server: it ended with ${code}: ${said.join("; ")}`))
  );
  return { url: await address.promise, stop };
}

/** Milliseconds of each answer, one question after the other at a steady pace. */
async function probe(url: string, isDone: () => boolean): Promise<number[]> {
  const latencies: number[] = [];
  while (!isDone()) {
    const start = performance.now();
    await ask(url);
    const taken = performance.now() - start;
    latencies.push(taken);
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, INTERVAL_MS - taken)));
  }
  return latencies;
}

async function makePictures(url: string, isDone: () => boolean): Promise<number> {
  let count = 0;
  while (!isDone()) await makePicture(url, ++count);
  return count;
}

async function makePicture(url: string, seed: number): Promise<void> {
  const { prompt, width, height, numInferenceSteps, guidanceScale } = IMAGE;
  await ask(`${url}/v1/images/generations`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      prompt,
      size: `${width}x${height}`,
      seed,
      num_inference_steps: numInferenceSteps,
      guidance_scale: guidanceScale,
      response_format: "b64_json",
    }),
  });
}

async function countAnswers(url: string, seconds: number): Promise<number> {
  const isDone = until(seconds);
  const start = performance.now();
  let count = 0;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (!isDone()) {
      await ask(url);
      count++;
    }
  }));
  return count / ((performance.now() - start) / 1000);
}

async function ask(url: string, init: RequestInit = {}): Promise<void> {
  const response = await fetch(url, init);
  const body = await response.text();
  if (response.status === 200) return;
  throw new Error(`Cannot bench ${url}: it answered ${response.status}: ${body.slice(0, 200)}`);
}

function until(seconds: number): () => boolean {
  const end = performance.now() + seconds * 1000;
  return () => performance.now() >= end;
}
