/** What the official client and the server say to each other, call by call, against what was recorded. */

import { strict as assert } from "node:assert";
import OpenAI, { toFile } from "openai";
import { decodeImage } from "../../media/decode.ts";
import { encodeImage } from "../../media/encode.ts";
import { startServer } from "../../server/serve.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { assertRecorded, Recorder } from "../fakes/recorder.ts";

const MODEL = "org/gradients";

/** Lets the official client, as it is, talk to a server through a recorder. */
async function converse(name: string, talk: (client: OpenAI) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const server = await startServer({
    openEngine: () =>
      Promise.resolve(
        new FakeEngine({
          info: { supportedTasks: ["T2V", "T2I", "I2I", "I2V"], maxImages: 2 },
        }),
      ),
    port: 0,
    outputPath: folder,
    servedModelName: MODEL,
    apiKeys: ["sk-test"],
  });
  try {
    await server.ready;
    await using recorder = new Recorder(server.url);
    await talk(new OpenAI({ apiKey: "sk-test", baseURL: `${recorder.url}/v1`, maxRetries: 0 }));
    // How often a client has to ask until a video is finished is not the same twice.
    const once = recorder.exchanges.filter(({ request }, index, all) =>
      request !== all[index + 1]?.request || !request.startsWith("GET")
    );
    assertRecorded(name, once);
  } finally {
    await server.close();
    await Deno.remove(folder, { recursive: true });
  }
}

async function png(): Promise<File> {
  const data = new Uint8Array(64 * 48 * 3).fill(128);
  const { bytes } = await encodeImage({ width: 64, height: 48, data }, { format: "png" });
  return await toFile(bytes, "in.png", { type: "image/png" });
}

Deno.test("client.models.list() is understood on both sides", () =>
  converse("models_list", async (client) => {
    assert.deepEqual((await client.models.list()).data.map(({ id }) => id), [MODEL]);
  }));

Deno.test("client.images.generate() is understood on both sides", () =>
  converse("images_generate", async (client) => {
    const { data } = await client.images.generate({
      ...{ model: MODEL, prompt: "a red circle", n: 2 },
      ...{ size: "auto", quality: "auto", output_format: "png", response_format: "b64_json" },
    });
    for (const { b64_json } of data!) await decodeImage(Uint8Array.fromBase64(b64_json!));
  }));

Deno.test("client.images.edit() is understood on both sides", () =>
  converse("images_edit", async (client) => {
    const { data } = await client.images.edit({
      ...{ model: MODEL, prompt: "make it blue", output_format: "png" },
      image: [await png(), await png()],
    });
    const { width, height } = await decodeImage(Uint8Array.fromBase64(data![0]!.b64_json!));
    assert.deepEqual([width, height], [64, 48]);
  }));

Deno.test("client.videos.create() to delete() are understood on both sides", () =>
  converse("videos", async (client) => {
    const created = await client.videos.create({
      ...{ model: MODEL as "sora-2", prompt: "a red circle rolls" },
      input_reference: await png(),
    });
    let video = created;
    while (!["completed", "failed"].includes(video.status)) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      video = await client.videos.retrieve(created.id);
    }
    assert.equal(video.status, "completed");
    const ids: string[] = [];
    for await (const { id } of client.videos.list()) ids.push(id);
    assert.deepEqual(ids, [created.id]);
    const content = await client.videos.downloadContent(created.id);
    const bytes = new Uint8Array(await content.arrayBuffer());
    assert.equal(String.fromCharCode(...bytes.subarray(4, 8)), "ftyp");
    assert.equal((await client.videos.delete(created.id)).id, created.id);
    await assert.rejects(client.videos.retrieve(created.id), OpenAI.NotFoundError);
  }));
