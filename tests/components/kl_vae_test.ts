/** The image autoencoders against the reference. */
import { strict as assert } from "node:assert";
import {
  FLUX2_VAE_CONFIG,
  KL_VAE_CONFIG,
  type KlCoderConfig,
} from "../../models/autoencoders/kl/config.ts";
import { klDecoder, klEncoder } from "../../models/autoencoders/kl/coder.ts";
import {
  denormaliseTokens,
  normaliseTokens,
  packLatents,
  unpackLatents,
} from "../../models/autoencoders/kl/packing.ts";
import {
  posteriorSample,
  scaleLatents,
  unscaleLatents,
} from "../../models/autoencoders/kl/posterior.ts";
import { parseConfig } from "../../models/config.ts";
import { type Device, type Graph, type Tensor, Weights } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall, transpose, type Values } from "../support/golden.ts";
import { checkCalls, ModelRun, openTestDevice } from "../support/model_run.ts";
import { psnr } from "../support/pixels.ts";

/** [batch, channels, height, width] of the reference to [batch, height, width, channels] and back. */
const TO_CHANNELS_LAST = [0, 2, 3, 1];
const TO_CHANNELS_FIRST = [0, 3, 1, 2];
/** Largest error of moments and pixels, as a part of the largest magnitude. */
const GATE = 1e-4;
/** Least PSNR of decoded pixels, in decibels. */
const MIN_PSNR = 60;

async function checkCall(
  device: Device,
  golden: Golden,
  config: KlCoderConfig,
  weights: Weights,
  call: GoldenCall,
): Promise<void> {
  const code = async (
    name: string,
    trace: (graph: Graph, part: Tensor) => Tensor,
  ): Promise<Values> => {
    const x = transpose(golden.tensor(call.name, name), TO_CHANNELS_LAST);
    using run = await ModelRun.prepare(device, weights, { x }, (graph, { x }) => ({
      y: trace(graph, x!),
    }));
    await run.run();
    return transpose(await run.read("y"), TO_CHANNELS_FIRST);
  };
  if (call.inputs.includes("image")) {
    const moments = await code(
      "image",
      (graph, pixels) => klEncoder(graph, config, weights.root, pixels),
    );
    const channels = moments.shape[1]! / 2;
    const half = (index: number): Values => ({
      shape: moments.shape.with(1, channels),
      data: Array.from(moments.data).slice(
        index * moments.data.length / 2,
        (index + 1) * moments.data.length / 2,
      ),
    });
    assertClose(`${call.name} mean`, half(0), golden.tensor(call.name, "mean"), GATE);
    assertClose(`${call.name} logvar`, half(1), golden.tensor(call.name, "logvar"), GATE);
    return;
  }
  const pixels = await code(
    "z",
    (graph, latents) => klDecoder(graph, config, weights.root, latents),
  );
  const expected = golden.tensor(call.name, "pixels");
  assertClose(call.name, pixels, expected, GATE);
  const unit = ({ data }: Values) =>
    Float32Array.from(data, (value) => Math.min(1, Math.max(0, value / 2 + 0.5)));
  const decibels = psnr(unit(pixels), unit(expected));
  assert.ok(decibels > MIN_PSNR, `${call.name}: PSNR is ${decibels.toFixed(1)} dB`);
}

const isCoded = ({ inputs }: GoldenCall) =>
  inputs.length === 1 && (inputs.includes("image") || inputs.includes("z"));

for (
  const [name, schema, unread] of [
    ["kl/sd-tiny", KL_VAE_CONFIG, []],
    ["kl/flux2-tiny", FLUX2_VAE_CONFIG, ["bn.num_batches_tracked"]],
  ] as const
) {
  Deno.test(`klEncoder() and klDecoder() give the moments and pixels of ${name}`, async (t) => {
    const golden = new Golden(name);
    const config = parseConfig(schema, golden.config(), "config.json");
    using checkpoint = golden.checkpoint();
    const check = (device: Device, weights: Weights, call: GoldenCall) =>
      checkCall(device, golden, config, weights, call);
    const unused = await checkCalls(t, golden, checkpoint, check, golden.calls.filter(isCoded));
    assert.deepEqual(unused.filter((name) => !name.startsWith("bn.running")), unread);
  });
}

Deno.test("klEncoder() and klDecoder() give the reference's results at widths of real models", async (t) => {
  const golden = new Golden("kl/wide");
  const config = parseConfig(KL_VAE_CONFIG, golden.config(), "config.json");
  using checkpoint = golden.checkpoint();
  const unused = await checkCalls(
    t,
    golden,
    checkpoint,
    (device, weights, call) => checkCall(device, golden, config, weights, call),
  );
  assert.deepEqual(unused, []);
});

Deno.test("posteriorSample(), scaleLatents() and unscaleLatents() give the reference's latents", async () => {
  const device = await openTestDevice();
  const golden = new Golden("kl/sd-tiny");
  const config = parseConfig(KL_VAE_CONFIG, {
    ...golden.config() as object,
    ...golden.call("sample").args,
  }, "config.json");
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  const value = (name: string) => transpose(golden.tensor("sample", name), TO_CHANNELS_LAST);
  try {
    const inputs = { image: value("image"), noise: value("noise") };
    using run = await ModelRun.prepare(device, weights, inputs, (graph, { image, noise }) => {
      const sample = posteriorSample(klEncoder(graph, config, weights.root, image!), noise!);
      const scaled = scaleLatents(config, sample);
      return { sample, scaled, unscaled: unscaleLatents(config, scaled) };
    });
    await run.run();
    assertClose("sample", await run.read("sample"), value("sample"), GATE);
    assertClose("scaled", await run.read("scaled"), value("scaled"), GATE);
    assertClose("unscaled", await run.read("unscaled"), value("sample"), GATE);
  } finally {
    weights.destroy();
    device.destroy();
  }
});

Deno.test("packLatents() and normaliseTokens() give FLUX.2's tokens, and their inverses the latents", async () => {
  const device = await openTestDevice();
  const golden = new Golden("kl/flux2-tiny");
  const config = parseConfig(FLUX2_VAE_CONFIG, golden.config(), "config.json");
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  const latents = transpose(golden.tensor("pack", "latents"), TO_CHANNELS_LAST);
  try {
    using run = await ModelRun.prepare(device, weights, { latents }, (_, { latents }) => {
      const tokens = normaliseTokens(config, weights.root, packLatents(latents!));
      const back = denormaliseTokens(config, weights.root, tokens);
      return { tokens, back: unpackLatents(back, latents!.dim(1) / 2) };
    });
    await run.run();
    assertClose("tokens", await run.read("tokens"), golden.tensor("pack", "tokens"), 1e-5);
    assertClose("latents", await run.read("back"), latents, 1e-5);
  } finally {
    weights.destroy();
    device.destroy();
  }
});
