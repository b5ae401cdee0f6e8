/** Videos that play while they are written. */
import assert from "node:assert/strict";
import { probeVideo } from "../../media/video/mod.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { create, ended, ffmpeg, PATH, videoService as service } from "./video_service.ts";

/** Makes the frames of a video one by one, the last ones when it is let. */
class Hesitant extends FakeEngine {
  readonly goesOn = Promise.withResolvers<void>();
  failure: Error | undefined;

  override async generate(...[request, control]: Parameters<FakeEngine["generate"]>) {
    const { onFrame, ...others } = control!;
    const result = await super.generate(request, others);
    const { frames, ...rest } = result;
    const { width, height } = request;
    for (const [i, data] of frames.entries()) {
      if (i === 12) await this.goesOn.promise;
      if (this.failure) throw this.failure;
      await onFrame!({ width, height, data });
    }
    return { ...rest, frames: [] };
  }
}

const FRAGMENTED = { prompt: "a", size: "32x32", num_frames: 17, fps: 8, fragmented: true };

/** Reads a body until it has some text, or to its end. */
async function readTo(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  text?: string,
): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return chunks;
    chunks.push(value);
    if (
      text &&
      new TextDecoder("latin1").decode(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).bytes())
        .includes(text)
    ) return chunks;
  }
}

Deno.test("GET /v1/videos/{id}/content gives a fragmented video while it is written", async () => {
  const engine = new Hesitant();
  await using testee = await service(engine);
  const { id } = await create(testee, FRAGMENTED);
  const plain = await create(testee, { ...FRAGMENTED, fragmented: false });
  const path = `${PATH}/${id}/content`;
  const response = await testee.get(path);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "video/mp4");
  assert.equal(response.headers.get("content-length"), null);
  const reader = response.body!.getReader();
  const first = await readTo(reader, "moof");
  assert.equal((await testee.store.get(id))!.status, "in_progress");
  assert.equal((await testee.get(path, { method: "HEAD" })).status, 200);
  // Neither is there what nobody asks for, nor a video that does not play before its end.
  for (const missing of [`${path}?variant=1`, `${PATH}/${plain.id}/content`]) {
    assert.equal((await testee.get(missing)).status, 404);
  }
  engine.goesOn.resolve();
  const bytes = await new Blob([...first, ...await readTo(reader)] as Uint8Array<ArrayBuffer>[])
    .bytes();
  await ended(testee, id);
  assert.deepEqual(bytes, await (await testee.get(path)).bytes());
  await Deno.writeFile(`${testee.folder}/seen.mp4`, bytes);
  assert.equal((await probeVideo(ffmpeg, `${testee.folder}/seen.mp4`)).frames, 17);
});

Deno.test("GET /v1/videos/{id}/content breaks off where a fragmented video is given up", async () => {
  const engine = new Hesitant();
  await using testee = await service(engine);
  const { id } = await create(testee, FRAGMENTED);
  const reader = (await testee.get(`${PATH}/${id}/content`)).body!.getReader();
  await readTo(reader, "moof");
  engine.failure = new Error("broken");
  engine.goesOn.resolve();
  await assert.rejects(readTo(reader), /its job failed or was cancelled/);
  assert.equal((await ended(testee, id)).status, "failed");
});
