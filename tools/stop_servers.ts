/**
 * Stops real servers in the midst of everything and counts how they ended:
 * `deno run -A tools/stop_servers.ts [COUNT] [PHASE…]`. Prints a line for each phase, and the log of
 * every server that did not end as it should.
 */

import { join } from "node:path";
import { encodeImage } from "../media/encode.ts";
import { findFfmpeg, writeVideo } from "../media/video/mod.ts";
import { postJson, type ServerProcess, startProcess } from "../tests/e2e/server_process.ts";

/** What a server is stopped in the midst of. */
interface Phase {
  /** Begins it; what it resolves with is not waited for. */
  begin(server: ServerProcess, folder: string): Promise<unknown>;
  /** Longest time from the beginning to the signal, in milliseconds. */
  maxMs: number;
  /** Whether the server is stopped before its model is loaded. */
  isLoading?: boolean;
  /** Whether there is no FFmpeg but the one in WebAssembly. */
  isBundled?: boolean;
  /** Whether a second signal follows. */
  isTwice?: boolean;
}

const VIDEO = { prompt: "a red circle", size: "64x64", num_frames: 9, num_inference_steps: 6 };

const nothing = () => Promise.resolve();
const image = (server: ServerProcess) =>
  postJson(`${server.url}/v1/images/generations`, { prompt: "a red circle", size: "128x128" });
const video = (server: ServerProcess) => postJson(`${server.url}/v1/videos`, VIDEO);

const PHASES: Readonly<Record<string, Phase>> = {
  loading: { begin: nothing, maxMs: 1500, isLoading: true },
  idle: { begin: nothing, maxMs: 50 },
  image: { begin: image, maxMs: 800 },
  video: { begin: video, maxMs: 2500 },
  "video, bundled FFmpeg": { begin: video, maxMs: 4000, isBundled: true },
  upload: { begin: (server) => post(server, slowForm()), maxMs: 400 },
  "decoding an image": {
    begin: async (server, folder) =>
      post(server, await form("input_reference", join(folder, "a.png"))),
    maxMs: 1500,
  },
  "decoding a video": {
    begin: async (server, folder) =>
      post(server, await form("video_reference", join(folder, "a.mp4"))),
    maxMs: 1500,
  },
  "video, two signals": { begin: video, maxMs: 2500, isTwice: true },
};

/** A form whose file never ends. */
function slowForm(): { body: BodyInit; type?: string } {
  const head =
    '--b\r\ncontent-disposition: form-data; name="input_reference"; filename="a.png"\r\n' +
    "content-type: image/png\r\n\r\n";
  const body = new ReadableStream<Uint8Array>({
    start: (stream) => stream.enqueue(new TextEncoder().encode(head)),
    pull: async (stream) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      stream.enqueue(new Uint8Array(100_000));
    },
  });
  return { body, type: "multipart/form-data; boundary=b" };
}

async function form(field: string, path: string): Promise<{ body: BodyInit; type?: string }> {
  const body = new FormData();
  for (const [name, value] of Object.entries(VIDEO)) body.set(name, String(value));
  body.set(field, new Blob([await Deno.readFile(path)]), path);
  return { body };
}

function post(
  server: ServerProcess,
  { body, type }: { body: BodyInit; type?: string },
): Promise<Response> {
  const headers = type === undefined ? {} : { "content-type": type };
  return fetch(`${server.url}/v1/videos`, { method: "POST", body, headers });
}

/** Stops one server; gives its exit code or signal, and the time from the signal to its end. */
async function stopOne(phase: Phase, folder: string): Promise<{ how: string; ms: number }> {
  await Deno.remove(join(folder, "outputs"), { recursive: true }).catch(() => {});
  const env: Record<string, string> = phase.isBundled ? { PATH: "" } : {};
  await using server = await startProcess(folder, [], env, phase.isLoading);
  phase.begin(server, folder).then(
    (answer) => answer instanceof Response ? answer.body?.cancel() : undefined,
  ).catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, Math.random() * phase.maxMs));
  const since = performance.now();
  if (phase.isTwice) {
    Deno.kill(server.pid, "SIGTERM");
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
  }
  const { code, signal } = await server.end("SIGTERM");
  const how = signal ?? String(code);
  const isExpected = how === "0" || (phase.isTwice && how === "SIGTERM");
  if (!isExpected) console.error(server.log());
  return { how, ms: performance.now() - since };
}

async function main([count = "20", ...names]: readonly string[]): Promise<void> {
  const folder = await Deno.makeTempDir();
  const data = new Uint8Array(1500 * 1500 * 3).map((_, index) => index * 7);
  const { bytes } = await encodeImage({ width: 1500, height: 1500, data }, { format: "png" });
  await Deno.writeFile(join(folder, "a.png"), bytes);
  const video = writeVideo(await findFfmpeg(), {
    ...{ path: join(folder, "a.mp4"), width: 640, height: 480, fps: 8, crf: 20 },
  });
  for (let frame = 0; frame < 40; frame++) {
    await video.write(data.subarray(frame * 1000, frame * 1000 + 640 * 480 * 3));
  }
  await video.finish();
  for (const [name, phase] of Object.entries(PHASES)) {
    if (names.length > 0 && !names.includes(name)) continue;
    const ends = new Map<string, number>();
    let slowest = 0;
    for (let stop = 0; stop < Number(count); stop++) {
      const { how, ms } = await stopOne(phase, folder);
      ends.set(how, (ends.get(how) ?? 0) + 1);
      slowest = Math.max(slowest, ms);
    }
    const counts = [...ends].map(([how, times]) => `${times} x ${how}`).join(", ");
    console.log(`${name}: ${counts}; slowest ${(slowest / 1000).toFixed(1)} s`);
  }
  await Deno.remove(folder, { recursive: true });
}

if (import.meta.main) await main(Deno.args);
