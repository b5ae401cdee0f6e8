import assert from "node:assert/strict";
import { Golden } from "../../../tests/support/golden.ts";
import { type MemoryTensor, memoryTensors } from "../../../tests/support/memory_tensors.ts";
import type { ComponentFormat } from "../../checkpoints/component_format.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { LTX2_AUDIO_VAE_CONFIG } from "./audio_config.ts";
import { LTX2_AUDIO_VAE_FORMAT, LTX2_VIDEO_VAE_FORMAT, LTX2_VOCODER_FORMAT } from "./format.ts";
import { LTX2_VIDEO_VAE_CONFIG } from "./video_config.ts";
import { LTX2_VOCODERS_CONFIG } from "./vocoder_config.ts";

const STATISTICS = (name: string) =>
  name.replace("latents_mean", "per_channel_statistics.mean-of-means")
    .replace("latents_std", "per_channel_statistics.std-of-means");

/** The name that the makers' code has for a tensor of the video autoencoder. */
function videoName(name: string): string {
  const levels = 4;
  return STATISTICS(name)
    .replace("encoder.mid_block", `encoder.down_blocks.${2 * levels}`)
    .replace("decoder.mid_block", "decoder.up_blocks.first")
    .replace(
      /down_blocks\.(\d)\.downsamplers\.0/,
      (_, level) => `down_blocks.${2 * Number(level) + 1}`,
    )
    .replace(
      /down_blocks\.(\d)\.resnets/,
      (_, level) => `down_blocks.${Number(level) === levels ? 8 : 2 * Number(level)}.resnets`,
    )
    .replace(/up_blocks\.(\d)\.upsamplers\.0/, (_, level) => `up_blocks.${2 * Number(level) + 1}`)
    .replace(/up_blocks\.(\d)\.resnets/, (_, level) => `up_blocks.${2 * Number(level) + 2}.resnets`)
    .replace("up_blocks.first", "up_blocks.0")
    .replace(`down_blocks.${4 * levels}`, `down_blocks.${2 * levels}`)
    .replace("resnets", "res_blocks");
}

function vocoderName(name: string): string {
  return name.replace("conv_in", "conv_pre").replace("conv_out", "conv_post")
    .replace("upsamplers", "ups").replace("resnets", "resblocks").replace("act_out", "act_post")
    .replace("downsample.filter", "downsample.lowpass.filter");
}

const CASES: readonly [
  golden: string,
  format: Omit<ComponentFormat, "component">,
  schema: { parse(config: unknown): object },
  prefix: string,
  rename: (name: string) => string,
][] = [
  ["video-tiny", LTX2_VIDEO_VAE_FORMAT, LTX2_VIDEO_VAE_CONFIG, "vae.", videoName],
  ["audio-tiny", LTX2_AUDIO_VAE_FORMAT, LTX2_AUDIO_VAE_CONFIG, "audio_vae.", STATISTICS],
  ["vocoder-tiny", LTX2_VOCODER_FORMAT, LTX2_VOCODERS_CONFIG, "vocoder.", vocoderName],
  ["vocoder-extended", LTX2_VOCODER_FORMAT, LTX2_VOCODERS_CONFIG, "vocoder.", vocoderName],
];

/** What shapes do not tell: hops and rates, and what the last step of a net is. */
const STATED = ["hop_length", "final_act_fn", "spatial_compression_ratio"];
const ALSO_STATED = [
  ...["temporal_compression_ratio", "down_block_types", "final_bias"],
  ...["input_sampling_rate", "output_sampling_rate"],
];

for (const [golden, format, schema, prefix, rename] of CASES) {
  Deno.test(`${format.className}'s format knows ${golden} in both namings, its configuration and every tensor`, () => {
    const { folder } = new Golden(`ltx2_coders/${golden}`);
    using checkpoint = new Golden(`ltx2_coders/${golden}`).checkpoint();
    const names = [...checkpoint.names];
    const stated = JSON.parse(Deno.readTextFileSync(`${folder}/config.json`));
    for (const naming of [(name: string) => prefix + rename(name), (name: string) => name]) {
      const tensors: Record<string, MemoryTensor> = {};
      for (const name of names) tensors[naming(name)] = checkpoint.find(name)!.shape;
      const [found] = recognise(memoryTensors(tensors), [{ ...format, component: "vae" }]);
      assert.deepEqual([...found!.tensors.names].sort(), names.toSorted());
      const own = Object.fromEntries(
        [...STATED, ...ALSO_STATED].filter((key) => key in stated).map((key) => [key, stated[key]]),
      );
      const actual = schema.parse({ ...format.config(found!.tensors), ...own });
      const expected = schema.parse(stated);
      for (const [key, value] of Object.entries(expected)) {
        const got = (actual as Record<string, unknown>)[key];
        // One flag for all levels, or one for each.
        const flat = Array.isArray(value) && typeof got === "boolean" ? value.map(() => got) : got;
        assert.deepEqual(flat ?? null, value, key);
      }
    }
  });
}
