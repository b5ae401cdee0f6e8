import assert from "node:assert/strict";
import { Golden } from "../../../tests/support/golden.ts";
import { type MemoryTensor, memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { Checkpoint } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { FLUX1_VAE_FORMAT } from "../kl/format.ts";
import { WAN_VAE_CONFIG } from "./config.ts";
import { WAN_VAE_FORMAT } from "./format.ts";

/** The name that the Wan team's code has for a tensor of its 2.2 autoencoder. */
function originalName(name: string): string {
  const pairs: [RegExp, string][] = [
    [/(resnets\.\d+)\.norm1/, "$1.residual.0"],
    [/(resnets\.\d+)\.conv1/, "$1.residual.2"],
    [/(resnets\.\d+)\.norm2/, "$1.residual.3"],
    [/(resnets\.\d+)\.conv2/, "$1.residual.6"],
    [/conv_shortcut/, "shortcut"],
    [/mid_block\.resnets\.0/, "middle.0"],
    [/mid_block\.resnets\.1/, "middle.2"],
    [/mid_block\.attentions\.0/, "middle.1"],
    [/down_blocks\.(\d+)\.resnets\.(\d+)/, "downsamples.$1.downsamples.$2"],
    [/down_blocks\.(\d+)\.downsampler/, "downsamples.$1.downsamples.1"],
    [/up_blocks\.(\d+)\.resnets\.(\d+)/, "upsamples.$1.upsamples.$2"],
    [/up_blocks\.(\d+)\.upsampler/, "upsamples.$1.upsamples.2"],
    [/conv_in/, "conv1"],
    [/norm_out/, "head.0"],
    [/conv_out/, "head.2"],
    [/^post_quant_conv/, "conv2"],
    [/^quant_conv/, "conv1"],
  ];
  return pairs.reduce((text, [ours, theirs]) => text.replace(ours, theirs), name);
}

Deno.test("WAN_VAE_FORMAT knows Wan 2.2's autoencoder in both namings, its configuration and every tensor", () => {
  const { folder } = new Golden("wan/vae22-tiny");
  using checkpoint = Checkpoint.open(folder);
  const { latents_mean, latents_std, ...expected } = WAN_VAE_CONFIG.parse(
    JSON.parse(Deno.readTextFileSync(`${folder}/config.json`)),
  );
  assert.equal(latents_mean.length, latents_std.length);
  const names = [...checkpoint.names];
  for (const rename of [originalName, (name: string) => `vae.${name}`]) {
    const tensors: Record<string, MemoryTensor> = {};
    for (const name of names) tensors[rename(name)] = checkpoint.find(name)!.shape;
    const [found] = recognise(memoryTensors(tensors), [WAN_VAE_FORMAT]);
    assert.deepEqual([...found!.tensors.names].sort(), names.toSorted());
    for (const name of names) {
      assert.deepEqual(found!.tensors.find(name)!.shape, checkpoint.find(name)!.shape, name);
    }
    const { latents_mean: mean, latents_std: std, ...config } = WAN_VAE_CONFIG.parse(
      WAN_VAE_FORMAT.config(found!.tensors),
    );
    assert.deepEqual(config, expected);
    assert.deepEqual([mean.length, std.length], [16, 16]);
  }
});

Deno.test("WAN_VAE_FORMAT and FLUX1_VAE_FORMAT know a decoder alone, with the decoder's part of the configuration", () => {
  const cases = [
    ["wan/vae22-tiny", WAN_VAE_FORMAT, ["decoder_base_dim"]],
    ["wan/pipeline-t2v/vae", WAN_VAE_FORMAT, ["base_dim"]],
    ["z_image/pipeline/vae", FLUX1_VAE_FORMAT, ["block_out_channels"]],
  ] as const;
  for (const [name, format, keys] of cases) {
    const folder = name.endsWith("/vae")
      ? `${new Golden(name.replace("/vae", "")).folder}/vae`
      : new Golden(name).folder;
    using checkpoint = Checkpoint.open(folder);
    const shapes = (pattern: RegExp) => {
      const tensors: Record<string, MemoryTensor> = {};
      for (const name of [...checkpoint.names].filter((name) => pattern.test(name))) {
        tensors[name] = checkpoint.find(name)!.shape;
      }
      const [found] = recognise(memoryTensors(tensors), [format]);
      return found!.format.config(found!.tensors);
    };
    const whole = shapes(/./);
    const alone = shapes(/^(?:decoder|post_quant_conv|bn)\./);
    const shared = [
      "dim_mult",
      "num_res_blocks",
      "temperal_downsample",
      "is_residual",
      "patch_size",
    ];
    for (const key of [...shared, "layers_per_block", "scale_factor_spatial", ...keys]) {
      assert.deepEqual(alone[key], whole[key], `${name} ${key}`);
    }
  }
});
