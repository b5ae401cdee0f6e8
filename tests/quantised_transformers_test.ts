/** Quantised transformers in whole pipelines: the latents of the numbers that their blocks stand for; with DENOISE_SLOW. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { quantizeCheckpoint, type QuantizedType } from "../models/checkpoints/quantize/mod.ts";
import { type ModelParts, openPipeline, type PipelineRequest } from "../models/mod.ts";
import { withChroma, withComposed } from "./support/composed.ts";
import { assertClose, Golden } from "./support/golden.ts";
import { textRequest } from "./support/golden_request.ts";
import { openTestDevice } from "./support/model_run.ts";
import { safetensorsOf, withFolder } from "./support/safetensors.ts";
import { numbersOf, tensorsOf } from "./support/single_files.ts";

/** Of the latents after the last step, as a part of their largest magnitude. */
const LATENT_GATE = 1e-4;

/** Types with the ends of their files; that of blocks of 32 fits into every small model. */
const TYPES: readonly (readonly [QuantizedType, ending: string, stored: string])[] = [
  ["q8_0", "gguf", "Q8_0"],
  ["q4_0", "gguf", "Q4_0"],
  ["f8_e4m3", "safetensors", "F8_E4M3"],
];

const SCHNELL = [new Golden("flux1/schnell"), new Golden("flux1/dev")] as const;
const QWEN = [new Golden("qwen_image/pipeline")] as const;
const QWEN_21 = [new Golden("qwen_image_21/pipeline")] as const;
const KREA2 = [new Golden("krea2/pipeline")] as const;
const ERNIE = [new Golden("ernie_image/pipeline")] as const;
const FLUX2 = [new Golden("flux2/dev")] as const;
const FLUX3 = [new Golden("flux3/pipeline")] as const;
const IDEOGRAM4 = [new Golden("ideogram4/pipeline")] as const;
const HUNYUAN = [new Golden("hunyuan_video_15/pipeline")] as const;
const LUMINA2 = [new Golden("lumina2/pipeline")] as const;
const LTX2 = [new Golden("ltx2/pipeline23")] as const;
const OVIS = [new Golden("ovis_image/pipeline")] as const;
const LONGCAT = [new Golden("longcat_image/pipeline")] as const;
const AURAFLOW = [new Golden("auraflow/pipeline")] as const;
const ANIMA = [new Golden("anima/pipeline")] as const;
const CHROMA = new Golden("chroma-hd128");
const SD3 = [new Golden("stable_diffusion_3/pipeline")] as const;
const SD = ["pipeline", "xl_pipeline"].map((name) => new Golden(`stable_diffusion/${name}`));

/** Models with heads of 128, and UNets, by the golden whose first call is made. */
const MODELS: readonly (readonly [
  name: string,
  golden: Golden,
  withModel: (use: (folder: string) => Promise<void>) => Promise<void>,
])[] = [
  ["FLUX.1", SCHNELL[0], (use) => withComposed(SCHNELL, use)],
  ["Qwen-Image", QWEN[0], (use) => withComposed(QWEN, use)],
  ["Qwen-Image-2.1", QWEN_21[0], (use) => withComposed(QWEN_21, use)],
  ["Krea 2", KREA2[0], (use) => withComposed(KREA2, use)],
  ["Stable Diffusion 3", SD3[0], (use) => withComposed(SD3, use)],
  ["ERNIE-Image", ERNIE[0], (use) => withComposed(ERNIE, use)],
  ["FLUX.2 dev", FLUX2[0], (use) => withComposed(FLUX2, use)],
  ["FLUX.3", FLUX3[0], (use) => withComposed(FLUX3, use)],
  ["Ideogram 4", IDEOGRAM4[0], (use) => withComposed(IDEOGRAM4, use)],
  ["HunyuanVideo 1.5", HUNYUAN[0], (use) => withComposed(HUNYUAN, use)],
  ["Lumina 2", LUMINA2[0], (use) => withComposed(LUMINA2, use)],
  ["LTX-2.3", LTX2[0], (use) => withComposed(LTX2, use)],
  ["Ovis-Image", OVIS[0], (use) => withComposed(OVIS, use)],
  ["LongCat-Image", LONGCAT[0], (use) => withComposed(LONGCAT, use)],
  ["AuraFlow", AURAFLOW[0], (use) => withComposed(AURAFLOW, use)],
  ["Anima", ANIMA[0], (use) => withComposed(ANIMA, use)],
  ["Chroma", CHROMA, (use) => withChroma(use, [CHROMA])],
  ...SD.map((golden, i) =>
    [
      `Stable Diffusion ${i === 0 ? "1" : "XL"}`,
      golden,
      (use: (folder: string) => Promise<void>) =>
        withFolder({}, async (folder) => {
          cpSync(golden.folder, folder, { recursive: true });
          await use(folder);
        }),
    ] as const
  ),
];

async function latentsOf(
  folder: string,
  parts: ModelParts,
  request: PipelineRequest,
): Promise<Float32Array> {
  const device = await openTestDevice();
  using pipeline = await openPipeline(folder, parts);
  try {
    await pipeline.load(device);
    return (await pipeline.generate(request)).latents;
  } finally {
    device.destroy();
  }
}

for (const [name, golden, withModel] of MODELS) {
  Deno.test({
    name:
      `GGUF and fp8 files of ${name}'s transformer give the latents of their numbers; with DENOISE_SLOW`,
    ignore: !Deno.env.has("DENOISE_SLOW"),
    fn: (t) =>
      withModel(async (folder) => {
        const own = join(folder, SD.includes(golden) ? "unet" : "transformer");
        const request = { ...textRequest(golden.call("text")), guidanceScale: 1 };
        const stored = await latentsOf(folder, {}, request);
        for (const [type, ending, format] of TYPES) {
          await t.step(type, async () => {
            const file = join(folder, `${type}.${ending}`);
            await quantizeCheckpoint(own, file, { type });
            const formats = [...tensorsOf(file).values()].map(({ format }) => format);
            assert.ok(formats.includes(format), formats.join());
            const numbers = join(folder, `${type}-numbers`);
            Deno.mkdirSync(numbers);
            Deno.copyFileSync(join(own, "config.json"), join(numbers, "config.json"));
            const path = join(numbers, "diffusion_pytorch_model.safetensors");
            Deno.writeFileSync(path, safetensorsOf(numbersOf(file)));
            const actual = await latentsOf(folder, { transformer: file }, request);
            const expected = await latentsOf(folder, { transformer: numbers }, request);
            const shape = [expected.length];
            assertClose("latents", { shape, data: actual }, { shape, data: expected }, LATENT_GATE);
            assert.notDeepEqual(actual, stored, "another transformer");
          });
        }
      }),
  });
}
