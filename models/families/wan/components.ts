/** The parts of a Wan pipeline on disk: configurations checked, weight headers read, nothing on the device. */
import type { z } from "zod";
import { readJsonObject } from "../../../hub/json_file.ts";
import { componentFolder, type ModelIndex } from "../../../hub/model_index.ts";
import { Checkpoint, Weights } from "../../../runtime/mod.ts";
import { WAN_VAE_CONFIG, type WanVaeConfig } from "../../autoencoders/wan/config.ts";
import { parseConfig } from "../../config.ts";
import { createScheduler, type Scheduler } from "../../schedulers/mod.ts";
import { UMT5_CONFIG, type Umt5Config } from "../../text_encoders/umt5.ts";
import { loadTokenizer, type Tokenizer } from "../../tokenizers/mod.ts";
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

/**
 * Opens all parts.
 *
 * @throws {Error} naming the file and what is wrong with it
 */
export async function openWanComponents(index: ModelIndex): Promise<WanComponents> {
  const indexPath = `${index.folder}/model_index.json`;
  const pipeline = parseConfig(WAN_PIPELINE_CONFIG, index.settings, indexPath);
  const readConfig = async <Schema extends z.ZodType>(component: string, schema: Schema) => {
    const path = `${await componentFolder(index, component)}/config.json`;
    return parseConfig(schema, await readJsonObject(path), path);
  };
  const transformer = await readConfig("transformer", WAN_TRANSFORMER_CONFIG);
  const vae = await readConfig("vae", WAN_VAE_CONFIG);
  const textEncoder = await readConfig("text_encoder", UMT5_CONFIG);
  checkFit(indexPath, transformer, vae, textEncoder);
  const schedulerFolder = await componentFolder(index, "scheduler");
  const scheduler = createScheduler(
    await readJsonObject(`${schedulerFolder}/scheduler_config.json`),
  );
  const tokenizer = await loadTokenizer(await componentFolder(index, "tokenizer"));
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
        `Cannot use "${path}": the ${name} is ${value}, the ${otherName} is ${other}`,
      );
    }
  }
}
