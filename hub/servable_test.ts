import assert from "node:assert/strict";
import { join } from "node:path";
import { FakeHub } from "../tests/fakes/hub.ts";
import { pullModel } from "./pull.ts";
import { servableModels } from "./servable.ts";

const INDEX = JSON.stringify({
  _class_name: "ZImagePipeline",
  transformer: ["diffusers", "ZImageTransformer2DModel"],
  vae: ["diffusers", "AutoencoderKL"],
});
const [TRANSFORMER, VAE] = ["transformer", "vae"].map((name) =>
  `${name}/diffusion_pytorch_model.safetensors`
) as [string, string];
const PIPELINE = { "model_index.json": INDEX, [TRANSFORMER]: "t", [VAE]: "v" };
const HUB = {
  "Tongyi-MAI/Z-Image-Turbo": PIPELINE,
  "Tongyi-MAI/Z-Image": PIPELINE,
  "leejet/Z-Image-Turbo-GGUF": { "z_image_turbo-Q8_0.gguf": "eight" },
  "org/pipeline": PIPELINE,
  "org/checkpoint": { "model.safetensors": "m" },
  "org/language": { "model.safetensors": "l", "config.json": "{}" },
};

Deno.test("servableModels() gives whole models by the names of the catalogue, the user's and the hub", async () => {
  const folder = await Deno.makeTempDir();
  const config = Deno.env.get("DENOISE_CONFIG");
  try {
    await using hub = new FakeHub(HUB);
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder: join(folder, "hub") };
    await Deno.writeTextFile(
      join(folder, "models.json"),
      JSON.stringify({
        mine: { model: "org/pipeline", vae: "org/checkpoint:model.safetensors" },
        away: { model: "org/pipeline", vae: "org/none" },
      }),
    );
    Deno.env.set("DENOISE_CONFIG", folder);
    const names = async () => (await servableModels(settings)).map(({ name }) => name);
    assert.deepEqual(await names(), []);
    for (const id of Object.keys(HUB)) {
      // Of one model only a part has come.
      await pullModel(id, { settings, ...(id === "Tongyi-MAI/Z-Image" && { include: [VAE] }) });
    }
    assert.deepEqual(await names(), ["z-image-turbo", "mine", "org/checkpoint", "org/pipeline"]);
    const [first] = await servableModels(settings);
    assert.deepEqual(first!.aliases, ["Tongyi-MAI/Z-Image-Turbo"]);
  } finally {
    if (config === undefined) Deno.env.delete("DENOISE_CONFIG");
    else Deno.env.set("DENOISE_CONFIG", config);
    await Deno.remove(folder, { recursive: true });
  }
});
