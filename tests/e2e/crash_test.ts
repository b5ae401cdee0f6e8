/** Servers that are killed while they work, and what the next one makes of it. */

import { strict as assert } from "node:assert";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { until } from "../fakes/service.ts";
import { postJson, type ServerProcess, startProcess } from "./server_process.ts";

interface Video {
  id: string;
  status: string;
  error: { code: string } | null;
}

/** How often the server is killed, and the most it works before, in milliseconds. */
const KILLS = 2;
const MAX_WORK_MS = 600;
/** Videos that it has to make then. */
const JOBS = 3;

Deno.test("denoise serve --resume-jobs finishes what killed servers left, and keeps what was done", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const files = new Map<string, Uint8Array>();
    let ids: string[] = [];
    // A job is given up that two servers died of: each one here is killed under jobs of its own.
    for (let kill = 0; kill <= KILLS; kill++) {
      await using server = await startProcess(folder, ["--resume-jobs"]);
      for (const [id, bytes] of files) assert.deepEqual(await content(server, id), bytes);
      for (const video of await untilEnded(server, ids)) {
        assert.equal(video.status, "completed", JSON.stringify(video));
        const bytes = await content(server, video.id);
        // The first box of an MP4 file names its type.
        assert.equal(new TextDecoder().decode(bytes.subarray(4, 8)), "ftyp");
        files.set(video.id, bytes);
      }
      ids = [];
      if (kill === KILLS) break;
      for (let count = 0; count < JOBS; count++) ids.push((await createVideo(server, 6)).id);
      await killAtRandom(server);
    }
    assert.equal(files.size, JOBS * KILLS);
    const left = [...Deno.readDirSync(`${folder}/outputs`)].map(({ name }) => name)
      .filter((name) => name.endsWith(".part"));
    assert.deepEqual(left, [], "halves of files stay behind");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("denoise serve ends what a killed server left as interrupted, and removes its uploads", async () => {
  const folder = await Deno.makeTempDir();
  const inputs = join(folder, "outputs", "inputs");
  const uploads = () => existsSync(inputs) ? [...Deno.readDirSync(inputs)].length : 0;
  try {
    const ids: string[] = [];
    {
      await using server = await startProcess(folder);
      for (let count = 0; count < 4; count++) ids.push((await createVideo(server, 200)).id);
      const upload = beginUpload(server);
      await until(() => uploads() === 1);
      await killAtRandom(server);
      await upload;
      assert.equal(uploads(), 1);
    }
    await using server = await startProcess(folder);
    await until(() => uploads() === 0);
    const videos = await list(server, ids);
    assert.equal(videos.length, ids.length);
    for (const { id, status, error } of videos) {
      if (status === "completed") await content(server, id);
      else assert.deepEqual([status, error?.code], ["failed", "interrupted"]);
    }
    assert.ok(videos.some(({ status }) => status === "failed"), JSON.stringify(videos));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

async function createVideo(server: ServerProcess, steps: number): Promise<Video> {
  const response = await postJson(`${server.url}/v1/videos`, {
    prompt: "a red circle moves right",
    size: "32x32",
    num_frames: 5,
    num_inference_steps: steps,
  });
  assert.equal(response.status, 200, server.log());
  return await response.json();
}

/** Sends a form whose file never ends, until the server does; resolves then. */
async function beginUpload(server: ServerProcess): Promise<void> {
  const head = '--b\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n';
  const body = new ReadableStream<Uint8Array>({
    start: (stream) => stream.enqueue(new TextEncoder().encode(head)),
    pull: async (stream) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      stream.enqueue(new Uint8Array(10_000));
    },
  });
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  await fetch(`${server.url}/v1/images/edits`, { method: "POST", headers, body })
    .then((response) => response.body?.cancel(), () => {});
}

async function list(server: ServerProcess, ids: readonly string[]): Promise<Video[]> {
  const { data } = await (await fetch(`${server.url}/v1/videos`)).json();
  return (data as Video[]).filter(({ id }) => ids.includes(id));
}

async function untilEnded(server: ServerProcess, ids: readonly string[]): Promise<Video[]> {
  for (;;) {
    const videos = await list(server, ids);
    if (!videos.some(({ status }) => status === "queued" || status === "in_progress")) {
      return videos;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function content(server: ServerProcess, id: string): Promise<Uint8Array> {
  const response = await fetch(`${server.url}/v1/videos/${id}/content`);
  const bytes = await response.bytes();
  assert.equal(response.status, 200, new TextDecoder().decode(bytes.subarray(0, 500)));
  return bytes;
}

async function killAtRandom(server: ServerProcess): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, Math.random() * MAX_WORK_MS));
  await server.end("SIGKILL");
}
