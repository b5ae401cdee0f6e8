/** LTX-2.3 from single files under the names of its authors, and from GGUF: the same latents as from the folder that holds the same numbers. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { connectorLayout, ORIGINAL_LTX2 } from "../../models/families/ltx2/names.ts";
import { type ModelParts, openPipeline, type PipelineRequest } from "../../models/mod.ts";
import { LLAMA_CPP_GEMMA3 } from "../../models/text_encoders/gemma3_config.ts";
import { decodeElements } from "../../runtime/mod.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withFolder } from "../support/safetensors.ts";
import {
  type Bytes,
  mapped,
  prefixed,
  renamed,
  tensorsOf,
  within,
  writeGguf,
  writeSafetensors,
} from "../support/single_files.ts";

const own = new Golden("ltx2/pipeline23").folder;
const PREFIX = "model.diffusion_model.";

const REQUEST: PipelineRequest = {
  task: "T2V",
  prompt: "a red cat",
  negativePrompt: "",
  ...{ width: 64, height: 64, numFrames: 9, fps: 24, seed: 3 },
  ...{ numInferenceSteps: 2, guidanceScale: 1, maxSequenceLength: 32, enableAudio: false },
};

/** Configurations as the published models have them, which files without one are read by. */
const PUBLISHED = {
  transformer: {
    ...{ pos_embed_max_pos: 20, audio_pos_embed_max_pos: 20, base_height: 2048, base_width: 2048 },
    cross_attn_timestep_scale_multiplier: 1000,
  },
  text_encoder: {
    ...{ sliding_window: 1024, query_pre_attn_scalar: 32, layer_types: null },
  },
};

function publish(folder: string): void {
  cpSync(own, folder, { recursive: true });
  for (const [name, change] of Object.entries(PUBLISHED)) {
    const path = join(folder, name, "config.json");
    const config = JSON.parse(Deno.readTextFileSync(path));
    if (name === "text_encoder") config.text_config = { ...config.text_config, ...change };
    Deno.writeTextFileSync(path, JSON.stringify({ ...config, ...change }));
  }
}

async function latentsOf(model: string, parts: ModelParts = {}): Promise<Float32Array> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(model, parts);
  try {
    await pipeline.load(device);
    return (await pipeline.generate(REQUEST)).latents;
  } finally {
    device.destroy();
  }
}

/** The transformer under the original names. */
function transformer(prefix: string): Map<string, Bytes> {
  return prefixed(prefix, renamed(tensorsOf(join(own, "transformer")), ORIGINAL_LTX2));
}

/** As llama.cpp converts it: norms with the 1 that is added to their weights. */
function gemma(): Map<string, Bytes> {
  const text = within("model.language_model.", tensorsOf(join(own, "text_encoder")));
  const plain = mapped(text, (name, { shape, bytes, format }) => {
    if (!name.endsWith("norm.weight")) return [name, { shape, bytes, format }];
    const values = Float32Array.from(decodeElements(bytes as Uint8Array<ArrayBuffer>, "bf16"));
    const added = values.map((value) => value + 1);
    return [name, { shape, format: "F32", bytes: new Uint8Array(added.buffer) }];
  });
  return renamed(plain, LLAMA_CPP_GEMMA3);
}

Deno.test("a whole checkpoint of LTX-2.3, and GGUF files of it and of Gemma 3, give the latents of the folder", () =>
  withFolder({}, async (folder) => {
    const published = join(folder, "published");
    publish(published);
    const expected = await latentsOf(published);
    const places = { vae: published, audioVae: published, vocoder: published };
    const tokenizer = published;
    const check = async (title: string, model: string, parts: ModelParts) => {
      const latents = await latentsOf(model, { ...places, tokenizer, ...parts });
      const shape = [latents.length];
      assertClose(title, { shape, data: latents }, { shape, data: expected }, 1e-5);
    };
    const connectors = renamed(tensorsOf(join(own, "connectors")), connectorLayout(PREFIX));
    // The tensors of LTX-2.3 do not tell how wide the states of the text encoder are.
    const saved = {
      "denoise.config": Deno.readTextFileSync(join(own, "connectors", "config.json")),
    };
    const whole = join(folder, "ltx-2.3-dev.safetensors");
    writeSafetensors(whole, new Map([...transformer(PREFIX), ...connectors]), saved);
    await check("whole", whole, { textEncoder: published });
    const [model, encoder, text] = ["ltx-2.3-dev.gguf", "gemma-3-12b-it.gguf", "text.safetensors"]
      .map((name) => join(folder, name)) as [string, string, string];
    writeGguf(model, transformer(""), "ltxv");
    writeGguf(encoder, gemma(), "gemma3");
    writeSafetensors(text, connectors, saved);
    await check("GGUF", model, { textEncoder: encoder, connectors: text });
  }));
