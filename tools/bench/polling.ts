/** How fast many clients are answered that ask for a video while it is made. */

import { join } from "node:path";
import type { Figures } from "./figures.ts";
import { denoPath, ROOT } from "./machine.ts";
import { median, percentile } from "../../report/statistics.ts";

/** Clients at once. */
const CLIENTS = 500;

/** Time between two questions of one client, in milliseconds, as clients of this API wait. */
const INTERVAL_MS = 1000;

/** How long it goes on, in milliseconds. */
const DURATION_MS = 8000;

/**
 * Starts a server whose engine only waits, as a process of its own, and asks it for a video from many clients at once.
 * What is measured is the server: routes, records and connections.
 *
 * @throws {Error} when the server answers anything but 200
 */
export async function benchPolling(log: (line: string) => void): Promise<Figures> {
  const child = new Deno.Command(denoPath(), {
    args: ["run", "-A", "--config", join(ROOT, "deno.json"), SERVER],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  try {
    const url = (await lines.read()).value?.trim();
    if (!url) throw new Error("Cannot bench polling: the server did not start");
    log(`polling: ${CLIENTS} clients for ${DURATION_MS / 1000} s`);
    const created = await ask(`${url}/v1/videos`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: "a", num_frames: 1, num_inference_steps: 1000 }),
    });
    const video = `${url}/v1/videos/${created["id"]}`;
    const latencies: number[] = [];
    const end = performance.now() + DURATION_MS;
    await Promise.all(Array.from({ length: CLIENTS }, async (_, index) => {
      // Clients do not keep step.
      await pause(index * INTERVAL_MS / CLIENTS);
      while (performance.now() < end) {
        const start = performance.now();
        await ask(video);
        const taken = performance.now() - start;
        latencies.push(taken);
        await pause(Math.max(0, INTERVAL_MS - taken));
      }
    }));
    return {
      "500 clients polling, p50": { value: median(latencies), unit: "ms" },
      "500 clients polling, p99": { value: percentile(latencies, 0.99), unit: "ms" },
      "500 clients polling, longest": { value: percentile(latencies, 1), unit: "ms" },
      "500 clients polling, answers": {
        value: latencies.length / (DURATION_MS / 1000),
        unit: "/s",
      },
    };
  } finally {
    lines.releaseLock();
    await child.stdin.close();
    await child.status;
  }
}

const SERVER = join(ROOT, "tools", "bench", "polling_server.ts");

async function ask(url: string, init: RequestInit = {}): Promise<Record<string, unknown>> {
  const response = await fetch(url, init);
  const text = await response.text();
  if (response.status !== 200) {
    throw new Error(`Cannot bench polling: ${url} answered ${response.status}: ${text}`);
  }
  return JSON.parse(text);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
