/** The LoRAs that come with the bundled model, in every naming they are stored in. */
import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { AdaptedComponent } from "../../models/lora/adapted_component.ts";
import { BUNDLED_LORAS } from "../../models/lora/bundled.ts";
import { readLora } from "../../models/lora/read_lora.ts";
import type { AppliedLora, Lora } from "../../models/lora/types.ts";
import { ORIGINAL_WAN } from "../../models/families/wan/layouts.ts";
import { openPipeline } from "../../models/mod.ts";
import { Checkpoint, Weights } from "../../runtime/mod.ts";
import { changeReference } from "../support/lora_reference.ts";
import { Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { psnr } from "../support/pixels.ts";
import { openTestDevice } from "../support/model_run.ts";

const MODEL = new URL("../../models/bundled/", import.meta.url);
const DIALECTS = ["", ".kohya", ".comfyui"] as const;
const MAX_BYTES = 400_000;

/** The file of a bundled LoRA in one of its namings. */
function fileOf(name: string, dialect: (typeof DIALECTS)[number]): string {
  const path = fileURLToPath(BUNDLED_LORAS[name]!);
  return path.replace(/\.safetensors$/, `${dialect}.safetensors`);
}

/** Sum of what a LoRA adds to each module's weight, by module. */
function deltasOf(lora: Lora, rowsOf: (module: string) => number): Map<string, Float64Array> {
  return new Map(lora.changes.map(({ module, weight }) => {
    assert.equal(weight.length, 1, module);
    return [module, changeReference(weight[0]!, rowsOf(module))];
  }));
}

for (const name of Object.keys(BUNDLED_LORAS)) {
  Deno.test(`bundled LoRA ${name} means the same in each of its files, and fits every linear of the blocks`, async () => {
    using checkpoint = Checkpoint.open(fileURLToPath(new URL("transformer", MODEL)));
    const about = { target: "transformer", family: "Wan", layouts: [ORIGINAL_WAN] } as const;
    const { info: component } = new AdaptedComponent(new Weights(checkpoint), about);
    const rows = new Map(component.modules.map(({ name, shape }) => [name, shape[0]!]));
    let first: Map<string, Float64Array> | undefined;
    for (const dialect of DIALECTS) {
      const path = fileOf(name, dialect);
      assert.ok((await Deno.stat(path)).size < MAX_BYTES, `${path} is small`);
      const lora = await readLora(path, [component]);
      assert.deepEqual(lora.unmatchedKeys, []);
      const deltas = deltasOf(lora, (module) => rows.get(module)!);
      assert.equal(deltas.size, 70, "seven blocks of ten linears");
      first ??= deltas;
      // alpha / rank is a power of two: no rounding in any of them.
      assert.deepEqual(deltas, first);
    }
  });
}

/** f32 against torch in f32 after eight steps; a strength of 0.99 would give 50 dB. */
const MIN_PSNR = 70;

Deno.test({
  name:
    "WanPipeline.generate() gives diffusers' images without, with each and with both bundled LoRAs, from every file; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async (t) => {
    const golden = new Golden("bundled-adapters");
    const device = await openTestDevice();
    using pipeline = await openPipeline(fileURLToPath(MODEL));
    try {
      await pipeline.load(device);
      for (const call of golden.calls) {
        const { name, args } = call;
        const names = args["adapters"] as string[];
        for (const dialect of names.length === 0 ? [""] as const : DIALECTS) {
          await t.step(`${name}${dialect}`, async () => {
            const loras = await Promise.all(names.map(async (each): Promise<AppliedLora> => {
              const file = fileOf(each, dialect);
              const lora = await readLora(file, pipeline.adaptable);
              return { key: file, lora, strength: 1, targets: ["transformer"], mode: "dynamic" };
            }));
            const { frames } = await pipeline.generate({ ...textRequest(call), loras });
            const decibels = psnr(frames[0]!, golden.tensor(name, "frames").data);
            assert.ok(
              decibels > MIN_PSNR,
              `PSNR is ${decibels.toFixed(1)} dB, at least ${MIN_PSNR} are wanted`,
            );
          });
        }
      }
    } finally {
      device.destroy();
    }
  },
});
