/** The parts of a Z-Image pipeline: configurations checked, weight headers read, nothing on the device. */
import { KL_VAE_CONFIG, type KlVaeConfig } from "../../autoencoders/kl/config.ts";
import type { ConfigFile, ModelFiles } from "../../checkpoints/model_files.ts";
import type { Components } from "../../memory/stage.ts";
import { refuseFields } from "../../schedulers/config.ts";
import { createScheduler, FlowMatchEulerScheduler } from "../../schedulers/mod.ts";
import { QWEN3_CONFIG, type Qwen3Config } from "../../text_encoders/qwen3.ts";
import { requireQwen3Chat, type Tokenizer } from "../../tokenizers/mod.ts";
import { readComponent, type WeightedComponent } from "../open_component.ts";
import { Z_IMAGE_TRANSFORMER_CONFIG, type ZImageTransformerConfig } from "./config.ts";

/** See the file comment. */
export interface ZImageComponents extends Disposable {
  readonly tokenizer: Tokenizer;
  readonly scheduler: FlowMatchEulerScheduler;
  /** By which the noise levels of the scheduler are shifted, whatever the size. */
  readonly shift: number;
  readonly textEncoder: WeightedComponent<Qwen3Config>;
  readonly transformer: WeightedComponent<ZImageTransformerConfig>;
  readonly vae: WeightedComponent<KlVaeConfig>;
}

/** The weights, in the order in which they are used. */
export function componentsOf({ textEncoder, transformer, vae }: ZImageComponents): Components {
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
export async function openZImageComponents(files: ModelFiles): Promise<ZImageComponents> {
  try {
    return await openAll(files);
  } catch (error) {
    files[Symbol.dispose]();
    throw error;
  }
}

async function openAll(files: ModelFiles): Promise<ZImageComponents> {
  const transformer = await readComponent(
    files,
    "transformer",
    ["ZImageTransformer2DModel"],
    Z_IMAGE_TRANSFORMER_CONFIG,
  );
  const vae = await readComponent(files, "vae", ["AutoencoderKL"], KL_VAE_CONFIG);
  const textEncoder = await readComponent(
    files,
    "text_encoder",
    ["Qwen3Model", "Qwen3ForCausalLM"],
    QWEN3_CONFIG,
  );
  checkFit(files.path, transformer.config, vae.config, textEncoder.config);
  const schedulerFile = await files.scheduler();
  const scheduler = openScheduler(schedulerFile);
  const tokenizer = await files.tokenizer();
  requireQwen3Chat(tokenizer, files.path);
  if (tokenizer.vocabSize > textEncoder.config.vocab_size) {
    throw new SyntaxError(
      `Cannot use "${files.path}": the tokenizer has ${tokenizer.vocabSize} ids, the text encoder's vocab_size is ${textEncoder.config.vocab_size}`,
    );
  }
  return {
    tokenizer,
    scheduler,
    shift: Number(schedulerFile.config["shift"] ?? 1),
    textEncoder: textEncoder.open(),
    transformer: transformer.open(),
    vae: vae.open(),
    [Symbol.dispose]: () => files[Symbol.dispose](),
  };
}

function openScheduler({ path, config }: ConfigFile): FlowMatchEulerScheduler {
  try {
    refuseFields(config, ["stochastic_sampling"]);
    const scheduler = createScheduler(config);
    if (scheduler instanceof FlowMatchEulerScheduler) return scheduler;
    throw new TypeError("Cannot make a scheduler: Z-Image takes FlowMatchEulerDiscreteScheduler");
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new TypeError(`${cause.message} (in ${path})`, { cause });
  }
}

/** Refuses components that do not fit together. */
function checkFit(
  path: string,
  transformer: ZImageTransformerConfig,
  vae: KlVaeConfig,
  text: Qwen3Config,
): void {
  const checks: [string, number, string, number][] = [
    [
      "transformer's in_channels",
      transformer.in_channels,
      "autoencoder's latent_channels",
      vae.latent_channels,
    ],
    [
      "transformer's cap_feat_dim",
      transformer.cap_feat_dim,
      "text encoder's hidden_size",
      text.hidden_size,
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
