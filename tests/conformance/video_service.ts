/** Services that make videos, and what tests of videos send to them. */
import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { findFfmpeg, writeVideo } from "../../media/video/mod.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { type TestService, testService, until } from "../fakes/service.ts";

/** The route of videos. */
export const PATH = "/v1/videos";

/** The ffmpeg of the machine. */
export const ffmpeg = await findFfmpeg();

/** An engine that makes videos, from images and videos too. */
export function animator(stepMs = 0): FakeEngine {
  return new FakeEngine({
    stepMs,
    info: { supportedTasks: ["T2V", "T2I", "I2V", "V2V"], maxImages: 1 },
  });
}

/** A service with such an engine. */
export function videoService(engine = animator()): ReturnType<typeof testService> {
  return testService({ engine, ffmpeg });
}

/** Queues a video, and gives its record. */
// deno-lint-ignore no-explicit-any -- answers are looked at as their clients see them
export async function create(service: TestService, body: unknown): Promise<any> {
  const response = await service.post(PATH, body);
  const record = await response.json();
  assert.equal(response.status, 200, JSON.stringify(record));
  return record;
}

/** The record of a video once it has ended. */
export async function ended(service: TestService, id: string): Promise<Record<string, unknown>> {
  await until(async () => (await service.store.get(id))!.endedAt !== null);
  return await (await service.get(`${PATH}/${id}`)).json();
}

/** A grey image of 64x48. */
export async function png(): Promise<Blob> {
  const data = new Uint8Array(64 * 48 * 3).fill(128);
  return new Blob([(await encodeImage({ width: 64, height: 48, data }, { format: "png" })).bytes]);
}

/** Writes a video of 32x32 at 8 frames per second, and gives its path. */
export async function video(folder: string, frames = 6): Promise<string> {
  const path = `${folder}/source.mp4`;
  const writer = writeVideo(ffmpeg, { path, width: 32, height: 32, fps: 8, crf: 20 });
  for (let i = 0; i < frames; i++) await writer.write(new Uint8Array(32 * 32 * 3).fill(30 * i));
  await writer.finish();
  return path;
}
