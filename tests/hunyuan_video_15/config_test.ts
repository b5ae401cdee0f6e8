/** What HunyuanVideo 1.5's configurations say of guidance and of the autoencoder. */
import assert from "node:assert/strict";
import { HUNYUAN_VIDEO_15_VAE_CONFIG } from "../../models/autoencoders/hunyuan_video_15/config.ts";
import { parseConfig } from "../../models/config.ts";
import { GUIDER_CONFIG } from "../../models/families/hunyuan_video_15/config.ts";

function refuses(schema: typeof GUIDER_CONFIG | typeof HUNYUAN_VIDEO_15_VAE_CONFIG) {
  return (json: object, message: RegExp) =>
    assert.throws(() => parseConfig(schema, json, "config.json"), { name: "SyntaxError", message });
}

Deno.test("GUIDER_CONFIG takes a scale, and names what guides otherwise", () => {
  const refused = refuses(GUIDER_CONFIG);
  assert.equal(parseConfig(GUIDER_CONFIG, { guidance_scale: 6 }, "config.json").guidance_scale, 6);
  refused({ _class_name: "AdaptiveProjectedGuidance" }, /_class_name/);
  refused({ guidance_rescale: 0.7 }, /guidance_rescale is 0.7: guidance is not rescaled here/);
  refused({ use_original_formulation: true }, /use_original_formulation is true/);
  refused({ start: 0.2 }, /start is 0.2: guidance is the same in all steps here/);
  refused({ stop: 0.8 }, /stop is 0.8/);
});

Deno.test("HUNYUAN_VIDEO_15_VAE_CONFIG names sizes that do not fit", () => {
  const refused = refuses(HUNYUAN_VIDEO_15_VAE_CONFIG);
  const parsed = parseConfig(HUNYUAN_VIDEO_15_VAE_CONFIG, {}, "config.json");
  assert.deepEqual(parsed.block_out_channels, [128, 256, 512, 1024, 1024]);
  refused({ spatial_compression_ratio: 12 }, /a power of two/);
  refused({ spatial_compression_ratio: 32 }, /of at most 4 halvings/);
  refused({ temporal_compression_ratio: 32 }, /at most spatial_compression_ratio/);
  refused({ latent_channels: 48 }, /twice as many must divide the last width, 1024/);
  refused({ block_out_channels: [128, 256, 510, 1024, 1024] }, /multiples of 8/);
  refused({ downsample_match_channel: false }, /downsample_match_channel is false/);
});
