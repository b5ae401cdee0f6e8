/** `denoise serve`, stopped in the midst of everything at any moment. */

import { strict as assert } from "node:assert";
import { join } from "node:path";
import { encodeImage } from "../../media/encode.ts";
import { findFfmpeg, writeVideo } from "../../media/video/mod.ts";
import { postJson, type ServerProcess, startProcess } from "./server_process.ts";

/** What a server is stopped in the midst of. */
interface Phase {
  /** Begins it; what it resolves with is not waited for. */
  begin(server: ServerProcess, folder: string): Promise<unknown>;
  /** Longest time from the beginning to the signal, in milliseconds. */
  readonly maxMs: number;
  /** Whether the server is stopped before its model is loaded. */
  readonly isLoading?: boolean;
  /** Whether there is no FFmpeg but the one in WebAssembly. */
  readonly isBundled?: boolean;
}

/** Servers that each phase stops. */
const STOPS = 3;
const VIDEO = { prompt: "a red circle", size: "64x64", num_frames: 9, num_inference_steps: 6 };

const nothing = () => Promise.resolve();
const video = ({ url }: ServerProcess) => postJson(`${url}/v1/videos`, VIDEO);

const PHASES: Readonly<Record<string, Phase>> = {
  loading: { begin: nothing, maxMs: 1500, isLoading: true },
  idleness: { begin: nothing, maxMs: 50 },
  "an image": {
    begin: ({ url }) =>
      postJson(`${url}/v1/images/generations`, { prompt: "a red circle", size: "128x128" }),
    maxMs: 800,
  },
  "a video": { begin: video, maxMs: 2500 },
  "a video by the bundled FFmpeg": { begin: video, maxMs: 4000, isBundled: true },
  "an upload": { begin: upload, maxMs: 400 },
  "decoding an image": {
    begin: (server, folder) => postFile(server, "input_reference", join(folder, "a.png")),
    maxMs: 1500,
  },
  "decoding a video": {
    begin: (server, folder) => postFile(server, "video_reference", join(folder, "a.mp4")),
    maxMs: 1500,
  },
};

/** Sends a form whose file never ends. */
function upload({ url }: ServerProcess): Promise<Response> {
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
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  return fetch(`${url}/v1/videos`, { method: "POST", body, headers });
}

async function postFile({ url }: ServerProcess, field: string, path: string): Promise<Response> {
  const body = new FormData();
  for (const [name, value] of Object.entries(VIDEO)) body.set(name, String(value));
  body.set(field, new Blob([await Deno.readFile(path)]), path);
  return await fetch(`${url}/v1/videos`, { method: "POST", body });
}

/** A large image and a video, for servers to decode. */
async function writeInputs(folder: string): Promise<void> {
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
}

for (const [name, { begin, maxMs, isLoading, isBundled }] of Object.entries(PHASES)) {
  Deno.test({
    name: `denoise serve ends on SIGTERM with 0 in the midst of ${name} (slow)`,
    ignore: !Deno.env.has("DENOISE_SLOW"),
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      const folder = await Deno.makeTempDir();
      try {
        await writeInputs(folder);
        for (let stop = 0; stop < STOPS; stop++) {
          await Deno.remove(join(folder, "outputs"), { recursive: true }).catch(() => {});
          await using server = await startProcess(
            folder,
            [],
            isBundled ? { PATH: "" } : {},
            isLoading,
          );
          begin(server, folder).then(
            (answer) => answer instanceof Response ? answer.body?.cancel() : undefined,
          ).catch(() => {});
          const after = Math.random() * maxMs;
          await new Promise((resolve) => setTimeout(resolve, after));
          const { code } = await server.end("SIGTERM");
          assert.equal(code, 0, `after ${after} ms:\n${server.log()}`);
        }
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}
