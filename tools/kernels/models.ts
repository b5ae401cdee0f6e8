/**
 * The programs of the catalogue's models at their usual sizes, traced from configurations alone: a stand-in for each file
 * of weights has whatever tensor the model asks for. `models.json` has what the models' authors publish, as far as the
 * schemas of our components have other defaults.
 */
import type { JsonObject } from "../../hub/json_file.ts";
import { ModelFiles } from "../../models/checkpoints/model_files.ts";
import { CHROMA } from "../../models/families/chroma/pipeline.ts";
import { FLUX1 } from "../../models/families/flux1/pipeline.ts";
import { FLUX2 } from "../../models/families/flux2/pipeline.ts";
import { QWEN_IMAGE } from "../../models/families/qwen_image/pipeline.ts";
import {
  STABLE_DIFFUSION,
  STABLE_DIFFUSION_XL,
} from "../../models/families/stable_diffusion/pipeline.ts";
import { STABLE_DIFFUSION_3 } from "../../models/families/stable_diffusion_3/pipeline.ts";
import { WAN } from "../../models/families/wan/pipeline.ts";
import { Z_IMAGE } from "../../models/families/z_image/pipeline.ts";
import { openFamily } from "../../models/pipeline/diffusion_pipeline.ts";
import type { Family } from "../../models/pipeline/family.ts";
import { usualRequest } from "../../models/pipeline/family_info.ts";
import type { Tokenizer } from "../../models/tokenizers/mod.ts";
import {
  type DeviceTensor,
  type Dispatch,
  type Shape,
  type StoredPart,
  type StoredTensor,
  type Target,
  type WeightLayout,
  Weights,
} from "../../runtime/mod.ts";
import TABLE from "./models.json" with { type: "json" };

interface Model {
  readonly name: string;
  /** The pipeline's class. */
  readonly className: string;
  readonly settings?: JsonObject;
  readonly scheduler: string;
  /** How the denoiser is stored, if in blocks its matrices alone, and all else as F32; other components are BF16. */
  readonly format: string;
  /** Names of components, by their names in `model_index.json`. */
  readonly parts: Readonly<Record<string, string>>;
}

interface Table {
  readonly components: Readonly<
    Record<string, {
      readonly config: JsonObject;
      /** Which of its biases it has, as a regular expression; all by default. */
      readonly biased?: string;
      /** Channels whose statistics the configuration lists; their numbers change no kernel. */
      readonly latents?: number;
    }>
  >;
  readonly schedulers: Readonly<Record<string, JsonObject>>;
  readonly models: readonly Model[];
}

const { components, schedulers, models } = TABLE as unknown as Table;

const FAMILIES = [
  CHROMA,
  FLUX1,
  FLUX2,
  QWEN_IMAGE,
  STABLE_DIFFUSION,
  STABLE_DIFFUSION_XL,
  STABLE_DIFFUSION_3,
  WAN,
  Z_IMAGE,
] as unknown as readonly Family[];

/** Tokens of a stand-in's prompts. */
const PROMPT_TOKENS = 60;

const TOKENIZER: Tokenizer = {
  vocabSize: 1,
  padId: 0,
  eosId: 0,
  encode: (text) =>
    new Array(text === "" ? 0 : /^<\|\w+\|>$/.test(text) ? 1 : PROMPT_TOKENS).fill(0),
  decode: () => "",
};

/** Weights that have every tensor in the shape in which it is asked for. */
class StandIn extends Weights {
  readonly #known: Map<string, StoredTensor>;
  readonly #biased: RegExp;
  readonly #formatOf: (shape: Shape) => string;

  constructor(biased: RegExp, formatOf: (shape: Shape) => string, known = new Map()) {
    const read = () => {
      throw new Error("Cannot read weights: a stand-in has no numbers");
    };
    super({ path: "stand-in", names: [], find: (name) => known.get(name), read });
    this.#known = known;
    this.#biased = biased;
    this.#formatOf = formatOf;
  }

  override has(name: string): boolean {
    const asked = name.endsWith(".bias") ? this.#biased : /(?:embed_tokens|conv_in)\.weight$/;
    return asked.test(name);
  }

  override declare(name: string, shape: Shape, layout?: WeightLayout): DeviceTensor {
    this.#learn({ name, shape });
    return super.declare(name, shape, layout);
  }

  override declareStack(parts: readonly StoredPart[]): DeviceTensor | undefined {
    parts.forEach((part) => this.#learn(part));
    return super.declareStack(parts);
  }

  #learn({ name, shape }: StoredPart): void {
    this.#known.set(name, { name, shape, format: this.#formatOf(shape), byteLength: 0 });
  }
}

/** A model's files, of which none is there. */
class StandInFiles extends ModelFiles {
  readonly #model: Model;

  constructor(model: Model) {
    const { name: path, className, settings = {}, scheduler } = model;
    super({ path, className, settings, scheduler: schedulers[scheduler]! });
    this.#model = model;
  }

  override has(name: string): boolean {
    return Object.hasOwn(this.#model.parts, name);
  }

  override component(name: string): ReturnType<ModelFiles["component"]> {
    const { parts, format } = this.#model;
    const { config: own, biased = "", latents } = components[parts[name]!]!;
    const statistics = latents === undefined ? {} : {
      latents_mean: new Array(latents).fill(0),
      latents_std: new Array(latents).fill(1),
    };
    const config = { ...own, ...statistics };
    const isMatrix = ({ length, [1]: columns }: Shape) => length === 2 && columns! % 256 === 0;
    const isDenoiser = name === "transformer" || name === "unet";
    const formatOf = (shape: Shape) =>
      !isDenoiser ? "BF16" : format.endsWith("F16") || isMatrix(shape) ? format : "F32";
    const openWeights = () => new StandIn(new RegExp(biased), formatOf);
    const open = () => {
      throw new Error(`Cannot open ${this.path}: nothing is in its place but shapes`);
    };
    return Promise.resolve({ path: this.path, config, open, openWeights });
  }

  override tokenizer(): Promise<Tokenizer> {
    return Promise.resolve(TOKENIZER);
  }
}

/** The dispatches that compute, of each phase of each model, by the names of both. */
export async function modelPhases(target: Target): Promise<Map<string, readonly Dispatch[]>> {
  const phases = new Map<string, Dispatch[]>();
  for (const model of models) {
    const family = FAMILIES.find(({ classNames }) => classNames.includes(model.className))!;
    const pipeline = await openFamily(family, new StandInFiles(model));
    const request = { ...usualRequest(pipeline.info), prompt: "a prompt" };
    for (const { phase, graphs } of pipeline.trace(target, request).session.stages) {
      for (const graph of Object.values(graphs)) {
        phases.getOrInsertComputed(`${model.name} ${phase}`, () => [])
          .push(...graph.dispatches.filter(({ exchange }) => !exchange));
      }
    }
  }
  return phases;
}
