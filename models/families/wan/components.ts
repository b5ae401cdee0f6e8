/** The parts of a Wan pipeline: configurations checked, weight headers read, nothing on the device. */
import { WAN_VAE_CONFIG, type WanVaeConfig } from "../../autoencoders/wan/config.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import { parseConfig } from "../../config.ts";
import { UMT5_CONFIG, type Umt5Config } from "../../text_encoders/umt5.ts";
import {
  checkFit,
  type FamilyComponents,
  openComponents,
  openScheduler,
  openTokenizer,
  readComponent,
} from "../family_components.ts";
import {
  WAN_PIPELINE_CONFIG,
  WAN_TRANSFORMER_CONFIG,
  type WanPipelineConfig,
  type WanTransformerConfig,
} from "./config.ts";

/** See the file comment. */
export interface WanComponents
  extends FamilyComponents<WanTransformerConfig, Umt5Config, WanVaeConfig> {
  readonly pipeline: WanPipelineConfig;
}

/** Opens all parts; see {@linkcode openComponents}. */
export function openWanComponents(files: ModelFiles): Promise<WanComponents> {
  return openComponents(files, openAll);
}

async function openAll(files: ModelFiles): Promise<Omit<WanComponents, keyof Disposable>> {
  const pipeline = parseConfig(WAN_PIPELINE_CONFIG, files.settings, files.path);
  const transformer = await readComponent(
    files,
    "transformer",
    ["WanTransformer3DModel"],
    WAN_TRANSFORMER_CONFIG,
  );
  const vae = await readComponent(files, "vae", ["AutoencoderKLWan"], WAN_VAE_CONFIG);
  const textEncoder = await readComponent(
    files,
    "text_encoder",
    ["UMT5EncoderModel"],
    UMT5_CONFIG,
  );
  const { in_channels, out_channels, text_dim } = transformer.config;
  const { z_dim } = vae.config;
  const { d_model, vocab_size } = textEncoder.config;
  checkFit(files.path, [
    ["transformer's in_channels", in_channels, "autoencoder's z_dim", z_dim],
    ["transformer's out_channels", out_channels, "autoencoder's z_dim", z_dim],
    ["transformer's text_dim", text_dim, "text encoder's d_model", d_model],
  ]);
  return {
    pipeline,
    // Wan's pipelines give neither the size that decides the shift nor noise at every step.
    scheduler: openScheduler(await files.scheduler(), [
      "use_dynamic_shifting",
      "stochastic_sampling",
    ]),
    tokenizer: await openTokenizer(files, vocab_size),
    textEncoder: textEncoder.open(),
    transformer: transformer.open(),
    vae: vae.open(),
  };
}
