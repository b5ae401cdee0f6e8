/** The autoencoder of SDXL with values beyond f16, on matrix units. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { klDecoder } from "../../models/autoencoders/kl/coder.ts";
import { KL_VAE_CONFIG } from "../../models/autoencoders/kl/config.ts";
import { parseConfig } from "../../models/config.ts";
import {
  copyTo,
  type Device,
  DeviceTensor,
  Graph,
  instantiate,
  planMemory,
  Saturation,
  Weights,
} from "../../runtime/mod.ts";
import { decodeFloats, encodeElements } from "../../runtime/dtype.ts";
import { saturateAlways, withMatrixUnits } from "../support/emulated_matrix_units.ts";
import { assertClose, Golden } from "../support/golden.ts";
import { textRequest } from "../support/golden_request.ts";
import { memoryTensors } from "../support/memory_tensors.ts";
import { openTestDevice } from "../support/model_run.ts";
import { withPipeline } from "../support/pipeline_fixture.ts";
import { withFolder } from "../support/safetensors.ts";
import { mapped, tensorsOf } from "../support/single_files.ts";

const XL = new Golden("stable_diffusion/xl_pipeline");
const CONFIG = JSON.parse(Deno.readTextFileSync(join(XL.folder, "vae/config.json")));
const FACTORS = { schedule: "gpu", operands: "f16" } as const;

for (const force_upcast of [true, false]) {
  const how = force_upcast ? "from the start, as force_upcast says," : "once they overflow";
  Deno.test({
    name: `StableDiffusionXLPipeline.generate() decodes with factors of f32 ${how}${
      force_upcast ? "" : "; with DENOISE_SLOW"
    }`,
    ignore: !force_upcast && !Deno.env.has("DENOISE_SLOW"),
    fn: () =>
      withFolder({}, async (parent) => {
        const folder = join(parent, "model");
        cpSync(XL.folder, folder, { recursive: true });
        const config = JSON.stringify({ ...CONFIG, force_upcast });
        Deno.writeTextFileSync(join(folder, "vae/config.json"), config);
        await withPipeline(async ({ pipeline }) => {
          const notes: string[] = [];
          const request = { ...textRequest(XL.call("text")), numInferenceSteps: 1 };
          await pipeline.generate(request, { onNote: (line) => notes.push(line) });
          assert.match(notes.join(), /down_blocks\.0\.resnets\.0/);
          assert.equal(notes.join().includes("decoder."), !force_upcast, notes.join("\n"));
        }, {
          folder,
          opening: { ...FACTORS, gpu: withMatrixUnits(navigator.gpu, saturateAlways) },
        });
      }),
  });
}

/** Pixels of latents, and the layers that f16 does not hold. */
async function decode(device: Device, saturation: Saturation) {
  const tensors = mapped(tensorsOf(join(XL.folder, "vae")), (name, tensor) => {
    if (!name.startsWith("decoder.conv_in.")) return [name, tensor];
    const values = decodeFloats(tensor.bytes.slice(), "bf16").map((value) => 2 ** 20 * value);
    return [name, { ...tensor, bytes: encodeElements(values, "bf16") }];
  });
  const weights = new Weights(memoryTensors(Object.fromEntries(tensors)));
  const [latents, pixels] = [
    new DeviceTensor("x", [1, 4, 4, 4]),
    new DeviceTensor("y", [1, 8, 8, 3]),
  ];
  const graph = new Graph("decode", device.target, saturation);
  const config = parseConfig(KL_VAE_CONFIG, CONFIG, "");
  copyTo(klDecoder(graph, config, weights.root, graph.use(latents)), pixels);
  const plan = planMemory({ decode: graph });
  await weights.upload(device);
  const all = [latents, pixels, saturation.counters];
  for (const tensor of all) tensor.allocate(device);
  latents.write(Float32Array.from({ length: 64 }, (_, i) => Math.sin(i)));
  const programs = await instantiate(plan, device);
  try {
    programs.get("decode").submit();
    const counts = Uint32Array.from(await saturation.counters.read());
    return {
      pixels: { shape: pixels.shape, data: await pixels.readFloat32() },
      layers: saturation.layersOf(counts),
    };
  } finally {
    programs.destroy();
    for (const tensor of all) tensor.destroy();
  }
}

Deno.test({
  name:
    "klDecoder() counts the layers whose factors f16 does not hold, and gives the pixels of f32 when these are wide; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: compareWide,
});

async function compareWide(): Promise<void> {
  const exact = await openTestDevice();
  const device = await openTestDevice({ ...FACTORS, gpu: withMatrixUnits(navigator.gpu) });
  try {
    const expected = await decode(exact, new Saturation());
    assert.deepEqual(expected.layers, []);
    const { layers } = await decode(device, new Saturation());
    assert.ok(layers.includes("decoder.up_blocks.0.upsamplers.0.conv.weight"), layers.join());
    const wide = await decode(device, new Saturation(new Set(layers)));
    assert.deepEqual(wide.layers, []);
    assertClose("pixels", wide.pixels, expected.pixels, 1e-2);
  } finally {
    exact.destroy();
    device.destroy();
  }
}
