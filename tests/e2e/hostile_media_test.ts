/**
 * Images and videos that were made to stop or to silence a server, against one that runs: it answers
 * all the time, keeps to its memory, and refuses or takes them in a clear answer.
 */

import assert from "node:assert/strict";
import { findFfmpeg } from "../../media/video/mod.ts";
import { makeGap, makeHugeFrame } from "../support/hostile_videos.ts";
import { gif, interlacedPng, plainWebp, scannedJpeg } from "../support/hostile_images.ts";
import { type ServerProcess, startProcess } from "./server_process.ts";
import { ServerWatch } from "./server_watch.ts";

/** The side of a square of 2^25 pixels, the most that an upload may have. */
const SIDE = 5792;

/** Uploads: the status of the answer, and what its message says. */
const IMAGES: [what: string, file: () => Uint8Array, status: number, said: RegExp][] = [
  ["38 bytes of WebP, 67 million pixels", () => plainWebp(8192, 8192), 400, /pixels, and at most/],
  ["38 bytes of WebP", () => plainWebp(SIDE, SIDE), 200, /./],
  ["interlaced PNG of one bit", () => interlacedPng(SIDE, SIDE, 0, 1), 200, /./],
  ["interlaced PNG of 16 bits", () => interlacedPng(SIDE, SIDE, 6, 16), 200, /./],
  ["PNG that is cut", () => interlacedPng(SIDE, SIDE, 2, 16, 1e8), 400, /needs \d+ bytes/],
  ["JPEG of 100 scans", () => scannedJpeg(SIDE, SIDE, 100), 200, /./],
  ["JPEG of 1000 scans", () => scannedJpeg(SIDE, SIDE, 1000), 400, /more than 100 scans/],
  ["35 bytes of GIF, 1.6 billion pixels", () => gif([1, 1], [40_000, 40_000]), 400, /screen/],
  [
    "whole GIF of 16 million on a screen of 1",
    () => gif([1, 1], [4000, 4000], true),
    400,
    /screen/,
  ],
  ["whole GIF", () => gif([SIDE, SIDE], [SIDE, SIDE], true), 200, /./],
];

for (const build of ["the system's", "the bundled"]) {
  Deno.test({
    name:
      `denoise serve answers and keeps its memory under hostile uploads, ${build} FFmpeg (slow)`,
    // Elsewhere the memory of other processes is not in a file.
    ignore: !Deno.env.has("DENOISE_SLOW") || Deno.build.os !== "linux",
    fn: async (t) => {
      const folder = await Deno.makeTempDir();
      const ffmpeg = await findFfmpeg();
      const env: Record<string, string> = build === "the bundled" ? { FFMPEG: "/no/such" } : {};
      try {
        await using server = await startProcess(folder, [], env);
        using watch = new ServerWatch(server);
        // The first image compiles the model's kernels, which is another matter.
        assert.equal((await edit(server, interlacedPng(64, 64, 2, 8))).status, 200);
        await watch.reset();
        const step = (name: string, use: () => Promise<void>) =>
          t.step(name, async () => {
            await use();
            await watch.check();
          });
        // Images have nothing to do with FFmpeg.
        if (build === "the system's") await sendImages(server, watch, step);
        const [gap, huge] = [`${folder}/gap.mkv`, `${folder}/huge.mov`];
        await makeGap(ffmpeg, gap);
        await makeHugeFrame(ffmpeg, huge);
        const videos = [["gap", gap], ["huge frame", huge]].map(
          ([what, path]) => [what!, new Blob([Deno.readFileSync(path!)])] as const,
        );
        const head = new TextEncoder().encode("\0\0\0\x18ftypmp42\0\0\0\0mp42isom");
        const zeros = new Blob([head, new Uint8Array(64 * 2 ** 20)]);
        await watch.reset();
        for (const [what, video] of [...videos, ["64 MiB of zeros", zeros] as const]) {
          await step(`four videos at once: ${what}`, async () => {
            const answers = await Promise.all([1, 2, 3, 4].map(() => animate(server, video)));
            for (const { status, text } of answers) {
              assert.equal(status, 400, text);
              assert.match(text, /"code":"invalid_source"/);
            }
          });
        }
        await step("two videos and the largest image at once", async () => {
          const video = videos[1]![1];
          const work = [animate(server, video), animate(server, video)];
          checkAnswer(await edit(server, plainWebp(SIDE, SIDE)), 200);
          for (const { status } of await Promise.all(work)) assert.equal(status, 400);
        });
        assert.equal((await edit(server, interlacedPng(64, 64, 2, 8))).status, 200, "it goes on");
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

/** A part of the test, after which the server is looked at. */
type Step = (name: string, use: () => Promise<void>) => Promise<unknown>;

async function sendImages(server: ServerProcess, watch: ServerWatch, step: Step): Promise<void> {
  for (const [what, file, status, said] of IMAGES) {
    const bytes = file();
    await watch.reset();
    await step(what, async () => checkAnswer(await edit(server, bytes), status, said));
  }
  await step("six at once, and one whose client leaves", async () => {
    const [webp, png] = [plainWebp(SIDE, SIDE), interlacedPng(SIDE, SIDE, 6, 16)];
    const leaving = AbortSignal.timeout(500);
    const files = [webp, png, webp, webp, scannedJpeg(2048, 2048, 50), png];
    const left = edit(server, scannedJpeg(SIDE, SIDE, 100), leaving);
    left.catch(() => {});
    const answers = await Promise.all(files.map((file) => edit(server, file)));
    for (const answer of answers) checkAnswer(answer, 200);
    await assert.rejects(left);
  });
}

/** Checks an answer; a machine that is busy may take too long for an image that is large but right. */
function checkAnswer(answer: { status: number; text: string }, status: number, said = /./): void {
  const isLate = answer.status === 400 && /it took more than 30 s/.test(answer.text);
  if (status === 200 && isLate) return;
  assert.equal(answer.status, status, answer.text);
  assert.match(answer.text, said);
}

async function edit(server: ServerProcess, file: Uint8Array, signal?: AbortSignal) {
  const fields = { prompt: "a", size: "64x64", num_inference_steps: "1", response_format: "url" };
  const blob = new Blob([file as Uint8Array<ArrayBuffer>]);
  return await post(`${server.url}/v1/images/edits`, fields, "image", blob, signal);
}

async function animate(server: ServerProcess, video: Blob) {
  const fields = { prompt: "a", size: "64x64", num_frames: "5", num_inference_steps: "1" };
  return await post(`${server.url}/v1/videos`, fields, "input_reference", video);
}

async function post(
  url: string,
  fields: Record<string, string>,
  name: string,
  file: Blob,
  signal?: AbortSignal,
) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append(name, file, "upload");
  const response = await fetch(url, { method: "POST", body: form, ...(signal ? { signal } : {}) });
  return { status: response.status, text: await response.text() };
}
