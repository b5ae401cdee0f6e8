/** The parts of a Wan pipeline on disk: configurations checked, weight headers read, nothing on the device. */
import type { z } from "zod";
import { readJsonObject } from "../../../hub/json_file.ts";
import { componentFolder, type ModelIndex } from "../../../hub/model_index.ts";
import { Checkpoint, Weights } from "../../../runtime/mod.ts";
import { WAN_VAE_CONFIG, type WanVaeConfig } from "../../autoencoders/wan/config.ts";
import { parseConfig } from "../../config.ts";
import { refuseFields } from "../../schedulers/config.ts";
import { createScheduler, type Scheduler } from "../../schedulers/mod.ts";
import { UMT5_CONFIG, type Umt5Config } from "../../text_encoders/umt5.ts";
import { loadTokenizer, type Tokenizer } from "../../tokenizers/mod.ts";
import {
  WAN_PIPELINE_CONFIG,
  WAN_TRANSFORMER_CONFIG,
  type WanPipelineConfig,
  type WanTransformerConfig,
} from "./config.ts";

/** Far more than any component's configuration has. */
const MAX_CONFIG_BYTES = 2 ** 20;

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

/**
 * Opens all parts.
 *
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openWanComponents(index: ModelIndex): Promise<WanComponents> {
  const indexPath = `${index.folder}/model_index.json`;
  const pipeline = parseConfig(WAN_PIPELINE_CONFIG, index.settings, indexPath);
  const readConfig = async <Schema extends z.ZodType>(
    component: string,
    className: string,
    schema: Schema,
  ) => {
    const path = `${await componentFolder(index, component, [className])}/config.json`;
    return parseConfig(schema, await readJsonObject(path, { maxBytes: MAX_CONFIG_BYTES }), path);
  };
  const transformer = await readConfig(
    "transformer",
    "WanTransformer3DModel",
    WAN_TRANSFORMER_CONFIG,
  );
  const vae = await readConfig("vae", "AutoencoderKLWan", WAN_VAE_CONFIG);
  const textEncoder = await readConfig("text_encoder", "UMT5EncoderModel", UMT5_CONFIG);
  checkFit(indexPath, transformer, vae, textEncoder);
  const scheduler = await openScheduler(await componentFolder(index, "scheduler"));
  const tokenizer = await loadTokenizer(await componentFolder(index, "tokenizer"));
  if (tokenizer.vocabSize > textEncoder.vocab_size) {
    throw new SyntaxError(
      `Cannot use "${indexPath}": the tokenizer has ${tokenizer.vocabSize} ids, the text encoder's vocab_size is ${textEncoder.vocab_size}`,
    );
  }
  const opened: Checkpoint[] = [];
  const open = (name: string) => {
    const checkpoint = Checkpoint.open(`${index.folder}/${name}`);
    opened.push(checkpoint);
    return new Weights(checkpoint);
  };
  const close = () => opened.forEach((checkpoint) => checkpoint[Symbol.dispose]());
  try {
    return {
      pipeline,
      tokenizer,
      scheduler,
      textEncoder: { config: textEncoder, weights: open("text_encoder") },
      transformer: { config: transformer, weights: open("transformer") },
      vae: { config: vae, weights: open("vae") },
      [Symbol.dispose]: close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

async function openScheduler(folder: string): Promise<Scheduler> {
  const path = `${folder}/scheduler_config.json`;
  const config = await readJsonObject(path, { maxBytes: MAX_CONFIG_BYTES });
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
