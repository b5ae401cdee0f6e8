/** The parts of a Z-Image pipeline: configurations checked, weight headers read, nothing on the device. */
import { KL_VAE_CONFIG, type KlVaeConfig } from "../../autoencoders/kl/config.ts";
import type { ConfigFile, ModelFiles } from "../../checkpoints/model_files.ts";
import { FlowMatchEulerScheduler } from "../../schedulers/mod.ts";
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
import { Z_IMAGE_TRANSFORMER_CONFIG, type ZImageTransformerConfig } from "./config.ts";

/** See the file comment. */
export interface ZImageComponents
  extends FamilyComponents<ZImageTransformerConfig, Qwen3Config, KlVaeConfig> {
  readonly scheduler: FlowMatchEulerScheduler;
  /** By which the noise levels of the scheduler are shifted, whatever the size. */
  readonly shift: number;
}

/** Opens all parts; see {@linkcode openComponents}. */
export function openZImageComponents(files: ModelFiles): Promise<ZImageComponents> {
  return openComponents(files, openAll);
}

async function openAll(files: ModelFiles): Promise<Omit<ZImageComponents, keyof Disposable>> {
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
  const { in_channels, cap_feat_dim } = transformer.config;
  const { latent_channels } = vae.config;
  const { hidden_size, vocab_size } = textEncoder.config;
  checkFit(files.path, [
    ["transformer's in_channels", in_channels, "autoencoder's latent_channels", latent_channels],
    ["transformer's cap_feat_dim", cap_feat_dim, "text encoder's hidden_size", hidden_size],
  ]);
  const schedulerFile = await files.scheduler();
  const scheduler = openFlowMatchEuler(schedulerFile);
  const tokenizer = await openTokenizer(files, vocab_size);
  requireQwen3Chat(tokenizer, files.path);
  return {
    tokenizer,
    scheduler,
    shift: Number(schedulerFile.config["shift"] ?? 1),
    textEncoder: textEncoder.open(),
    transformer: transformer.open(),
    vae: vae.open(),
  };
}

function openFlowMatchEuler(file: ConfigFile): FlowMatchEulerScheduler {
  const scheduler = openScheduler(file, ["stochastic_sampling"]);
  if (scheduler instanceof FlowMatchEulerScheduler) return scheduler;
  throw new TypeError(
    `Cannot make a scheduler: Z-Image takes FlowMatchEulerDiscreteScheduler (in ${file.path})`,
  );
}
