/** The parts of a FLUX.2 pipeline: configurations checked, weight headers read, nothing on the device. */
import { FLUX2_VAE_CONFIG, type Flux2VaeConfig } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import type { ModelFiles } from "../../checkpoints/model_files.ts";
import { parseConfig } from "../../config.ts";
import { QWEN3_CONFIG, type Qwen3Config } from "../../text_encoders/qwen3.ts";
import { requireQwen3Chat } from "../../tokenizers/mod.ts";
import {
  checkFit,
  type FamilyComponents,
  openComponents,
  openScheduler,
  openTokenizer,
  readComponent,
} from "../family_components.ts";
import {
  FLUX2_PIPELINE_CONFIG,
  FLUX2_TRANSFORMER_CONFIG,
  type Flux2PipelineConfig,
  type Flux2TransformerConfig,
} from "./config.ts";

/**
 * States of the text encoder that the transformer sees, side by side, numbered as transformers' `hidden_states`.
 *
 * Source: diffusers `Flux2KleinPipeline`, `text_encoder_out_layers`.
 */
export const TEXT_LAYERS: readonly number[] = [9, 18, 27];

/** See the file comment. */
export interface Flux2Components
  extends FamilyComponents<Flux2TransformerConfig, Qwen3Config, Flux2VaeConfig> {
  readonly pipeline: Flux2PipelineConfig;
}

/** Opens all parts; see {@linkcode openComponents}. */
export function openFlux2Components(files: ModelFiles): Promise<Flux2Components> {
  return openComponents(files, openAll);
}

async function openAll(files: ModelFiles): Promise<Omit<Flux2Components, keyof Disposable>> {
  const pipeline = parseConfig(FLUX2_PIPELINE_CONFIG, files.settings, files.path);
  const transformer = await readComponent(
    files,
    "transformer",
    ["Flux2Transformer2DModel"],
    FLUX2_TRANSFORMER_CONFIG,
  );
  const vae = await readComponent(files, "vae", ["AutoencoderKLFlux2"], FLUX2_VAE_CONFIG);
  const textEncoder = await readComponent(
    files,
    "text_encoder",
    ["Qwen3ForCausalLM", "Qwen3Model"],
    QWEN3_CONFIG,
  );
  const { in_channels, joint_attention_dim } = transformer.config;
  const packed = vae.config.latent_channels * PACKED_SIDE ** 2;
  const { hidden_size, vocab_size } = textEncoder.config;
  const count = TEXT_LAYERS.length;
  const states = `width of ${count} states of the text encoder`;
  checkFit(files.path, [
    ["transformer's in_channels", in_channels, "packed latents' width", packed],
    ["transformer's joint_attention_dim", joint_attention_dim, states, hidden_size * count],
  ]);
  const scheduler = openScheduler(await files.scheduler(), ["stochastic_sampling"]);
  const tokenizer = await openTokenizer(files, vocab_size);
  requireQwen3Chat(tokenizer, files.path);
  return {
    pipeline,
    tokenizer,
    scheduler,
    textEncoder: textEncoder.open(),
    transformer: transformer.open(),
    vae: vae.open(),
  };
}
