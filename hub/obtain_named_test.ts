import assert from "node:assert/strict";
import { join } from "node:path";
import { FakeHub } from "../tests/fakes/hub.ts";
import type { PartName } from "./model_index.ts";
import { findNamed, type NamedModel, obtainNamed } from "./obtain_named.ts";

const INDEX = JSON.stringify({
  _class_name: "ZImagePipeline",
  text_encoder: ["transformers", "Qwen3Model"],
  transformer: ["diffusers", "ZImageTransformer2DModel"],
  vae: ["diffusers", "AutoencoderKL"],
});
const REPOSITORY = {
  "model_index.json": INDEX,
  "text_encoder/model.safetensors": "encoder",
  "transformer/diffusion_pytorch_model.safetensors": "transformer",
  "vae/diffusion_pytorch_model.safetensors": "vae",
};
const HUB = {
  "Tongyi-MAI/Z-Image-Turbo": REPOSITORY,
  "leejet/Z-Image-Turbo-GGUF": {
    "z_image_turbo-Q8_0.gguf": "eight",
    "z_image_turbo-Q4_K.gguf": "four",
    "z_image_turbo-Q3_K.gguf": "three",
  },
  "Wan-AI/Wan2.2-T2V-A14B-Diffusers": {
    ...REPOSITORY,
    "transformer_2/diffusion_pytorch_model.safetensors": "low",
    "model_index.json": INDEX.replace("{", `{"transformer_2":["diffusers","W"],`),
  },
  "QuantStack/Wan2.2-T2V-A14B-GGUF": {
    "HighNoise/Wan2.2-T2V-A14B-HighNoise-Q4_K_M.gguf": "high",
    "LowNoise/Wan2.2-T2V-A14B-LowNoise-Q4_K_M.gguf": "low",
  },
};

/** Obtains models by name from a hub of our own, with a GPU of so many bytes. */
async function withHub(
  use: (
    obtain: (
      name: string,
      bytes?: number,
      given?: readonly PartName[],
    ) => ReturnType<typeof obtainNamed>,
    hub: FakeHub,
    notes: string[],
  ) => Promise<void>,
): Promise<void> {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub(HUB);
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    const notes: string[] = [];
    const obtain = async (name: string, bytes = 8e9, given: readonly PartName[] = []) => {
      const named = await findNamed(name) as Extract<NamedModel, { entry: unknown }>;
      return await obtainNamed(named, {
        settings,
        given,
        measure: () => Promise.resolve(bytes),
        onNote: (line) => notes.push(line),
      });
    };
    await use(obtain, hub, notes);
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
}

Deno.test("obtainNamed() takes the precision that fits, and of the rest all but the transformer", () =>
  withHub(async (obtain, hub, notes) => {
    const { path, parts, precision } = await obtain("z-image-turbo", 6e9);
    assert.equal(precision, "q4_k");
    assert.equal(await Deno.readTextFile(parts["transformer"]!), "four");
    assert.equal(
      await Deno.readTextFile(join(path, "vae/diffusion_pytorch_model.safetensors")),
      "vae",
    );
    assert.ok(!hub.filesSeen.some((seen) => /transformer\/|Q8_0|Q3_K/.test(seen)), "nothing else");
    assert.deepEqual(notes, [
      "Z-Image-Turbo in Q4_K, licence Apache-2.0",
      "Fetching 1 file of leejet/Z-Image-Turbo-GGUF: 0.0 GB",
      "Fetching 3 files of Tongyi-MAI/Z-Image-Turbo: 0.0 GB",
    ]);
    const seen = hub.seen.length;
    assert.deepEqual(await obtain("z-image-turbo", 24e9), { path, parts, precision });
    assert.equal(hub.seen.length, seen, "what is here is taken without the hub");
  }));

Deno.test("obtainNamed() of a precision in the name takes that, or the next one that is there", () =>
  withHub(async (obtain) => {
    const whole = await obtain("Z-Image-Turbo:BF16");
    assert.deepEqual([whole.precision, whole.parts], ["bf16", {}]);
    const folder = join(whole.path, "transformer/diffusion_pytorch_model.safetensors");
    assert.equal(await Deno.readTextFile(folder), "transformer");
    const six = await obtain("z-image-turbo:q6_k");
    assert.equal(await Deno.readTextFile(six.parts["transformer"]!), "four");
    await assert.rejects(obtain("z-image-turbo:q2_k"), /in q2_k: it has q8_0, q4_k, q3_k/);
    await assert.rejects(
      findNamed("z-image-turbo:q7"),
      /Cannot take z-image-turbo in q7: it is known in bf16, /,
    );
  }));

Deno.test("obtainNamed() brings both transformers of a pair", () =>
  withHub(async (obtain) => {
    const { path, parts } = await obtain("wan2.2-t2v-a14b", 12e9);
    assert.deepEqual(
      [parts["transformer"], parts["transformer2"]].map((file) => Deno.readTextFileSync(file!)),
      ["high", "low"],
    );
    assert.deepEqual(
      [...Deno.readDirSync(path)].map(({ name }) => name).sort(),
      ["model_index.json", "text_encoder", "vae"],
    );
  }));

Deno.test("obtainNamed() leaves out what comes from elsewhere, and fetches it once it does not", () =>
  withHub(async (obtain, hub) => {
    const { parts, path } = await obtain("wan2.2-t2v-a14b", 12e9, ["transformer2", "vae"]);
    assert.deepEqual(Object.keys(parts), ["transformer"]);
    const folders = () => [...Deno.readDirSync(path)].map(({ name }) => name).sort();
    assert.deepEqual(folders(), ["model_index.json", "text_encoder"]);
    assert.ok(!hub.filesSeen.some((seen) => seen.includes("LowNoise")));
    const again = await obtain("wan2.2-t2v-a14b", 12e9);
    assert.deepEqual(Object.keys(again.parts), ["transformer", "transformer2"]);
    assert.deepEqual(folders(), ["model_index.json", "text_encoder", "vae"]);
    const seen = hub.seen.length;
    await obtain("wan2.2-t2v-a14b", 12e9, ["transformer", "transformer2"]);
    assert.equal(hub.seen.length, seen);
  }));

Deno.test("findNamed() knows no paths, hub ids and unknown names, and a user's own first", async () => {
  for (const text of ["org/z-image-turbo", "./z-image-turbo", "tests", "nothing", "a:b:c", ""]) {
    assert.equal(await findNamed(text), undefined, text);
  }
  const folder = await Deno.makeTempDir();
  const before = Deno.env.get("DENOISE_CONFIG");
  try {
    Deno.env.set("DENOISE_CONFIG", folder);
    await Deno.writeTextFile(join(folder, "models.json"), `{"z-image":{"model":"/m"}}`);
    assert.deepEqual(await findNamed("z-image"), { own: { model: "/m", parts: {} } });
  } finally {
    if (before === undefined) Deno.env.delete("DENOISE_CONFIG");
    else Deno.env.set("DENOISE_CONFIG", before);
    await Deno.remove(folder, { recursive: true });
  }
});
