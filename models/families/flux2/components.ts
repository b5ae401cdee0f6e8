/** The parts of a FLUX.2 pipeline: configurations checked, weight headers read, nothing on the device. */
import type { z } from "zod";
import type { Weights } from "../../../runtime/mod.ts";
import { FLUX2_VAE_CONFIG, type Flux2VaeConfig } from "../../autoencoders/kl/config.ts";
import { PACKED_SIDE } from "../../autoencoders/kl/packing.ts";
import type { ConfigFile, ModelFiles } from "../../checkpoints/model_files.ts";
import { parseConfig } from "../../config.ts";
import type { Components } from "../../memory/stage.ts";
import { refuseFields } from "../../schedulers/config.ts";
import { createScheduler, type Scheduler } from "../../schedulers/mod.ts";
import { QWEN3_CONFIG, type Qwen3Config } from "../../text_encoders/qwen3.ts";
import type { Tokenizer } from "../../tokenizers/mod.ts";
import { requireQwen3Chat } from "../../tokenizers/qwen3_chat.ts";
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

/** A component that has weights. */
export interface WeightedComponent<Config> {
  readonly config: Config;
  readonly weights: Weights;
}

/** See the file comment. */
export interface Flux2Components extends Disposable {
  readonly pipeline: Flux2PipelineConfig;
  readonly tokenizer: Tokenizer;
  readonly scheduler: Scheduler;
  readonly textEncoder: WeightedComponent<Qwen3Config>;
  readonly transformer: WeightedComponent<Flux2TransformerConfig>;
  readonly vae: WeightedComponent<Flux2VaeConfig>;
}

/** Their weights under the names by which memory plans call them. */
export function componentsOf({ textEncoder, transformer, vae }: Flux2Components): Components {
  return {
    "text encoder": textEncoder.weights,
    "transformer": transformer.weights,
    "autoencoder": vae.weights,
  };
}

/**
 * Opens all parts.
 *
 * @param files are the result's from here on, and closed when it fails
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openFlux2Components(files: ModelFiles): Promise<Flux2Components> {
  try {
    return await openAll(files);
  } catch (error) {
    files[Symbol.dispose]();
    throw error;
  }
}

async function openAll(files: ModelFiles): Promise<Flux2Components> {
  const pipeline = parseConfig(FLUX2_PIPELINE_CONFIG, files.settings, files.path);
  const open = async <Schema extends z.ZodType>(
    name: string,
    classNames: readonly string[],
    schema: Schema,
  ) => {
    const { config, path, openWeights } = await files.component(name, classNames);
    return { config: parseConfig(schema, config, path), openWeights };
  };
  const transformer = await open(
    "transformer",
    ["Flux2Transformer2DModel"],
    FLUX2_TRANSFORMER_CONFIG,
  );
  const vae = await open("vae", ["AutoencoderKLFlux2"], FLUX2_VAE_CONFIG);
  const textEncoder = await open(
    "text_encoder",
    ["Qwen3ForCausalLM", "Qwen3Model"],
    QWEN3_CONFIG,
  );
  checkFit(files.path, transformer.config, vae.config, textEncoder.config);
  const scheduler = openScheduler(await files.scheduler());
  const tokenizer = await files.tokenizer();
  requireQwen3Chat(tokenizer, files.path);
  if (tokenizer.vocabSize > textEncoder.config.vocab_size) {
    throw new SyntaxError(
      `Cannot use "${files.path}": the tokenizer has ${tokenizer.vocabSize} ids, the text encoder's vocab_size is ${textEncoder.config.vocab_size}`,
    );
  }
  return {
    pipeline,
    tokenizer,
    scheduler,
    textEncoder: { config: textEncoder.config, weights: textEncoder.openWeights() },
    transformer: { config: transformer.config, weights: transformer.openWeights() },
    vae: { config: vae.config, weights: vae.openWeights() },
    [Symbol.dispose]: () => files[Symbol.dispose](),
  };
}

function openScheduler({ path, config }: ConfigFile): Scheduler {
  try {
    refuseFields(config, ["stochastic_sampling"]);
    return createScheduler(config);
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new TypeError(`${cause.message} (in ${path})`, { cause });
  }
}

/** Refuses components that do not fit together. */
function checkFit(
  path: string,
  transformer: Flux2TransformerConfig,
  vae: Flux2VaeConfig,
  text: Qwen3Config,
): void {
  const packed = vae.latent_channels * PACKED_SIDE ** 2;
  const states = text.hidden_size * TEXT_LAYERS.length;
  const checks: [string, number, string, number][] = [
    ["transformer's in_channels", transformer.in_channels, "packed latents' width", packed],
    [
      "transformer's joint_attention_dim",
      transformer.joint_attention_dim,
      `width of ${TEXT_LAYERS.length} states of the text encoder`,
      states,
    ],
  ];
  for (const [name, value, otherName, other] of checks) {
    if (value !== other) {
      throw new SyntaxError(
        `Cannot use "${path}": the ${name} is ${value}, the ${otherName} is ${other}; ` +
          "the components belong to different models, fetch them again",
      );
    }
  }
}
