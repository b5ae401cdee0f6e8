/** HunyuanVideo 1.5 behind the server: a video that begins with an image, in its shape. */
import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { postJson, startProcess } from "../e2e/server_process.ts";
import { withComposed } from "../support/composed.ts";
import { Golden } from "../support/golden.ts";

Deno.test("POST /v1/videos makes a video from an image with HunyuanVideo 1.5, in the size that is nearest in shape", () =>
  withComposed(
    ["image", "pipeline"].map((name) => new Golden(`hunyuan_video_15/${name}`)),
    async (model) => {
      const folder = await Deno.makeTempDir();
      try {
        await using server = await startProcess(folder, ["--model-path", model]);
        const data = Uint8Array.from({ length: 80 * 60 * 3 }, (_, i) => i % 251);
        const { bytes } = await encodeImage({ width: 80, height: 60, data }, { format: "png" });
        const body = {
          prompt: 'the fox says "hi"',
          input_reference: `data:image/png;base64,${bytes.toBase64()}`,
          ...{ num_frames: 5, num_inference_steps: 2, seed: 3 },
        };
        const created = await (await postJson(`${server.url}/v1/videos`, body)).json();
        assert.equal(created.size, "96x80", JSON.stringify(created));
        const at = `${server.url}/v1/videos/${created.id}`;
        let record = created;
        while (record.status === "queued" || record.status === "in_progress") {
          await new Promise((done) => setTimeout(done, 100));
          record = await (await fetch(at)).json();
        }
        assert.equal(record.status, "completed", JSON.stringify(record));
        const video = await (await fetch(`${at}/content`)).bytes();
        assert.equal(new TextDecoder().decode(video.subarray(4, 8)), "ftyp");
        const refused = await postJson(`${server.url}/v1/videos`, { prompt: "a fox" });
        assert.equal(refused.status, 400);
        assert.match((await refused.json()).detail, /I2V/);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  ));
