/** One server, the bundled model under two names and a small one of another family, in too little memory for two. */
import { strict as assert } from "node:assert";
import { decodeImage } from "../../media/decode.ts";
import { Golden } from "../support/golden.ts";
import { postJson, startProcess } from "./server_process.ts";

Deno.test({
  name: "denoise serve lets models take turns on the GPU (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const folder = await Deno.makeTempDir();
    const { folder: path } = new Golden("z_image/pipeline");
    const models = ["bundled", "two=bundled", `small=${path}`];
    const flags = models.flatMap((model) => ["--model-path", model]);
    try {
      await using server = await startProcess(folder, [...flags, "--max-vram", "40M"]);
      const states = async (): Promise<Record<string, string>> => {
        const { data } = await (await fetch(`${server.url}/v1/models`)).json();
        return Object.fromEntries(
          data.map(({ id, state }: { id: string; state: string }) => [id, state]),
        );
      };
      const make = async (model: string) => {
        const response = await postJson(`${server.url}/v1/images/generations`, {
          ...{ model, prompt: "a red circle", seed: 3, size: "64x64", num_inference_steps: 2 },
        });
        const body = await response.json();
        assert.equal(response.status, 200, JSON.stringify(body));
        // The recipe inside names the model; the pixels are the same.
        return (await decodeImage(Uint8Array.fromBase64(body.data[0].b64_json))).data;
      };
      while (Object.keys(await states()).length < 3) {
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      const first = await make("bundled");
      const [small, again] = [await make("small"), await make("two")];
      assert.deepEqual(await states(), { bundled: "unloaded", two: "loaded", small: "unloaded" });
      assert.deepEqual(again, first);
      assert.notDeepEqual(small, first);
      const unload = await fetch(`${server.url}/v1/models/two/unload`, { method: "POST" });
      assert.equal((await unload.json()).state, "unloaded");
      assert.match(server.log(), /Unloaded bundled: small takes its place/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
