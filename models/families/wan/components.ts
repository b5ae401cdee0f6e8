/** The parts of a Wan pipeline: configurations checked, weight headers read, nothing on the device. */
import type { z } from "zod";
import type { Weights } from "../../../runtime/mod.ts";
import { WAN_VAE_CONFIG, type WanVaeConfig } from "../../autoencoders/wan/config.ts";
import type { ConfigFile, ModelFiles } from "../../checkpoints/model_files.ts";
import { parseConfig } from "../../config.ts";
import type { Components } from "../../memory/stage.ts";
import { refuseFields } from "../../schedulers/config.ts";
import { createScheduler, type Scheduler } from "../../schedulers/mod.ts";
import { UMT5_CONFIG, type Umt5Config } from "../../text_encoders/umt5.ts";
import type { Tokenizer } from "../../tokenizers/mod.ts";
import {
  WAN_PIPELINE_CONFIG,
  WAN_TRANSFORMER_CONFIG,
  type WanPipelineConfig,
  type WanTransformerConfig,
} from "./config.ts";

/** A component that has weights. */
export interface WeightedComponent<Config> {
  readonly config: Config;
  readonly weights: Weights;
}

/** See the file comment. */
export interface WanComponents extends Disposable {
  readonly pipeline: WanPipelineConfig;
  readonly tokenizer: Tokenizer;
  readonly scheduler: Scheduler;
  readonly textEncoder: WeightedComponent<Umt5Config>;
  readonly transformer: WeightedComponent<WanTransformerConfig>;
  readonly vae: WeightedComponent<WanVaeConfig>;
}

/** Their weights under the names by which memory plans call them. */
export function componentsOf({ textEncoder, transformer, vae }: WanComponents): Components {
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
export async function openWanComponents(files: ModelFiles): Promise<WanComponents> {
  try {
    return await openAll(files);
  } catch (error) {
    files[Symbol.dispose]();
    throw error;
  }
}

async function openAll(files: ModelFiles): Promise<WanComponents> {
  const pipeline = parseConfig(WAN_PIPELINE_CONFIG, files.settings, files.path);
  const open = async <Schema extends z.ZodType>(
    name: string,
    className: string,
    schema: Schema,
  ) => {
    const { config, path, openWeights } = await files.component(name, [className]);
    return { config: parseConfig(schema, config, path), openWeights };
  };
  const transformer = await open("transformer", "WanTransformer3DModel", WAN_TRANSFORMER_CONFIG);
  const vae = await open("vae", "AutoencoderKLWan", WAN_VAE_CONFIG);
  const textEncoder = await open("text_encoder", "UMT5EncoderModel", UMT5_CONFIG);
  checkFit(files.path, transformer.config, vae.config, textEncoder.config);
  const scheduler = openScheduler(await files.scheduler());
  const tokenizer = await files.tokenizer();
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
    // Wan's pipelines give neither the size that decides the shift nor noise at every step.
    refuseFields(config, ["use_dynamic_shifting", "stochastic_sampling"]);
    return createScheduler(config);
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new TypeError(`${cause.message} (in ${path})`, { cause });
  }
}

/** Refuses components that do not fit together. */
function checkFit(
  path: string,
  transformer: WanTransformerConfig,
  vae: WanVaeConfig,
  text: Umt5Config,
): void {
  const checks: [string, number, string, number][] = [
    ["transformer's in_channels", transformer.in_channels, "autoencoder's z_dim", vae.z_dim],
    ["transformer's out_channels", transformer.out_channels, "autoencoder's z_dim", vae.z_dim],
    ["transformer's text_dim", transformer.text_dim, "text encoder's d_model", text.d_model],
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
