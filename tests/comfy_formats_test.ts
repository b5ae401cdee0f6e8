/** Transformers in ComfyUI's formats of layers: the latents of the same numbers in f16. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { ORIGINAL_FLUX1 } from "../models/families/flux1/layouts.ts";
import { ORIGINAL_Z_IMAGE } from "../models/families/z_image/layouts.ts";
import { inspect } from "../models/file_tools.ts";
import { quantizeCheckpoint } from "../models/checkpoints/quantize/mod.ts";
import { openPipeline } from "../models/mod.ts";
import { encodeElements } from "../runtime/dtype.ts";
import { type ComfyFormat, comfyLayer } from "./support/comfy_layers.ts";
import { withComposed } from "./support/composed.ts";
import { assertClose, Golden } from "./support/golden.ts";
import { textRequest } from "./support/golden_request.ts";
import { openTestDevice } from "./support/model_run.ts";
import { type Bytes, renamed, tensorsOf, writeSafetensors } from "./support/single_files.ts";

/** 80 dB of the largest magnitude: both round the same numbers to f16, some of them after other sums. */
const LATENT_GATE = 1e-4;

const BLOCK = /^(?:layers|noise_refiner|context_refiner|double_blocks|single_blocks)\./;
/** Formats by the name of a block's matrix; queries, keys and values are in one. */
const FORMATS: readonly (readonly [RegExp, ComfyFormat])[] = [
  [/\.(?:qkv|linear1)\.weight$/, "nvfp4"],
  [/\.(?:w1|\w+_mlp\.0)\.weight$/, "mxfp8"],
  [/\.(?:w2|\w+_mlp\.2)\.weight$/, "int8"],
  [/\.(?:w3|out|proj|linear2)\.weight$/, "convrot"],
];
const NAMES = ["NVFP4", "MXFP8", "INT8", "INT8 (ConvRot)"];

const MODELS = [
  { name: "Z-Image", goldens: ["z_image/pipeline"], layout: ORIGINAL_Z_IMAGE, isSlow: true },
  {
    name: "FLUX.1",
    goldens: ["flux1/schnell", "flux1/dev"],
    layout: ORIGINAL_FLUX1,
    isSlow: false,
  },
];

for (const { name, goldens: paths, layout, isSlow } of MODELS) {
  Deno.test({
    name:
      `a file of ${name}'s transformer in nvfp4, mxfp8 and int8 gives the latents of its numbers${
        isSlow ? "; with DENOISE_SLOW" : ""
      }`,
    ignore: isSlow && !Deno.env.has("DENOISE_SLOW"),
    fn: () => {
      const goldens = paths.map((path) => new Golden(path));
      return withComposed(goldens, async (folder) => {
        const [stored, numbers] = [new Map<string, Bytes>(), new Map<string, Bytes>()];
        for (const [key, tensor] of renamed(tensorsOf(join(folder, "transformer")), layout)) {
          const format = BLOCK.test(key) && FORMATS.find(([sign]) => sign.test(key))?.[1];
          if (!format) {
            for (const tensors of [stored, numbers]) tensors.set(key, tensor);
            continue;
          }
          const shape = tensor.shape as [number, number];
          const layer = comfyLayer(format, shape, stored.size);
          const module = key.slice(0, -".weight".length);
          for (const [ending, part] of layer.tensors) stored.set(module + ending, part);
          numbers.set(key, { format: "F16", shape, bytes: encodeElements(layer.values, "f16") });
        }
        const file = join(folder, "comfy.safetensors");
        writeSafetensors(file, stored);
        const plain = join(folder, "plain.safetensors");
        writeSafetensors(plain, numbers);
        const request = textRequest(goldens[0]!.call("text"));
        const device = await openTestDevice();
        const latentsOf = async (transformer: string) => {
          using pipeline = await openPipeline(folder, { transformer });
          await pipeline.load(device);
          return (await pipeline.generate(request)).latents;
        };
        const [actual, expected] = [await latentsOf(file), await latentsOf(plain)];
        device.destroy();
        const shape = [expected.length];
        assertClose("latents", { shape, data: actual }, { shape, data: expected }, LATENT_GATE);

        const inspection = await inspect(file);
        assert.ok("components" in inspection);
        const formats = inspection.components[0]!.formats.map(({ format }) => format);
        for (const format of NAMES) assert.ok(formats.includes(format), formats.join());
        const copy = join(folder, "copy.gguf");
        const made = await quantizeCheckpoint(file, copy, { type: "q8_0" });
        assert.ok(made.formats.some(([format, count]) => format === "Q8_0" && count >= 6));
      });
    },
  });
}
