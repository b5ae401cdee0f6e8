/** The files of a model: a folder of diffusers, single files of any program, or parts from several places. */
import { basename, exists, join } from "../../platform/mod.ts";
import { type JsonObject, readJsonObject } from "../../hub/json_file.ts";
import { componentFolder, MODEL_INDEX, type ModelIndex } from "../../hub/model_index.ts";
import { Checkpoint, type TensorSource, Weights } from "../../runtime/mod.ts";
import { loadTokenizer, type Tokenizer } from "../tokenizers/mod.ts";

/** Far more than any component's configuration has. */
export const MAX_CONFIG_BYTES = 2 ** 20;

export interface ConfigFile {
  readonly path: string;
  readonly config: JsonObject;
}

export interface ComponentFiles extends ConfigFile {
  /** Opens the tensors under the names of diffusers; they are closed with the model's files. */
  open(): TensorSource;
  /** Opens the weights, under the names of diffusers or as `view` names them; they are closed with the model's files. */
  openWeights(view?: (tensors: TensorSource) => TensorSource): Weights;
}

/** A component that does not come from the model's own folder. */
export interface ForeignPart {
  readonly className: string;
  readonly path: string;
  readonly config: JsonObject;
  open(): TensorSource;
  readonly readTokenizer?: () => Promise<Tokenizer>;
  /** All that its single file holds, under the file's names. */
  readonly file?: TensorSource;
}

interface ModelFilesOptions {
  readonly path: string;
  readonly className: string;
  readonly settings: JsonObject;
  readonly index?: ModelIndex;
  readonly parts?: ReadonlyMap<string, ForeignPart>;
  /** `scheduler_config.json`, where no folder has it. */
  readonly scheduler?: JsonObject;
  /** Keys of `scheduler_config.json` that the user gives. */
  readonly noise?: JsonObject;
  readonly tokenizers?: ReadonlyMap<string, () => Promise<Tokenizer>>;
  readonly opened?: Disposable[];
}

export class ModelFiles implements Disposable {
  readonly #options: ModelFilesOptions;
  readonly #opened: Disposable[];

  /** Use {@linkcode openModelFiles}. */
  constructor(options: ModelFilesOptions) {
    this.#options = options;
    this.#opened = options.opened ?? [];
  }

  get path(): string {
    const { path, index } = this.#options;
    return index?.folder === path ? join(path, MODEL_INDEX) : path;
  }

  get className(): string {
    return this.#options.className;
  }

  get settings(): JsonObject {
    return this.#options.settings;
  }

  /** Whether the user says how the noise is predicted or scheduled. */
  get saysNoise(): boolean {
    return Object.keys(this.#options.noise ?? {}).length > 0;
  }

  /** Whether the model has a component; a single file is never half of the pair of transformers of another model. */
  has(name: string): boolean {
    const { parts, index, path } = this.#options;
    if (parts?.has(name)) return true;
    const isOwn = index?.folder === path || name !== "transformer_2";
    return isOwn && index !== undefined && index.components.has(name);
  }

  async component(name: string, classNames: readonly string[]): Promise<ComponentFiles> {
    const part = this.#options.parts?.get(name);
    if (part) {
      if (!classNames.includes(part.className)) {
        throw new TypeError(
          `Cannot use "${part.path}" as the ${name} of "${this.#options.path}": its class is ${
            part.className.slice(0, 100)
          }, and ${classNames.join(" or ") || "none"} is needed`,
        );
      }
      const { path, config } = part;
      return componentFiles({ path, config }, () => part.open());
    }
    const folder = await componentFolder(this.#index(name), name, classNames);
    const path = join(folder, "config.json");
    const config = await readJsonObject(path, { maxBytes: MAX_CONFIG_BYTES });
    return componentFiles({ path, config }, () => this.#keep(Checkpoint.open(folder)));
  }

  async scheduler(): Promise<ConfigFile> {
    const { path, scheduler, noise } = this.#options;
    if (scheduler) return { path, config: { ...scheduler, ...noise } };
    const folder = await componentFolder(this.#index("scheduler"), "scheduler");
    const file = join(folder, "scheduler_config.json");
    const config = await readJsonObject(file, { maxBytes: MAX_CONFIG_BYTES });
    return { path: file, config: { ...config, ...noise } };
  }

  /** `settings`, with those that a folder has of its guidance. */
  async allSettings(): Promise<JsonObject> {
    const { index, path, settings } = this.#options;
    const guider = index?.folder === path ? index.components.get("guider") : undefined;
    if (!index || !guider) return settings;
    const file = join(index.folder, guider.folder, "guider_config.json");
    if (!await exists(file)) return settings;
    return { ...settings, guider: await readJsonObject(file, { maxBytes: MAX_CONFIG_BYTES }) };
  }

  async tokenizer(name = "tokenizer"): Promise<Tokenizer> {
    return await this.#options.tokenizers?.get(name)?.() ??
      await loadTokenizer(await componentFolder(this.#index(name), name));
  }

  [Symbol.dispose](): void {
    for (const file of this.#opened.splice(0)) file[Symbol.dispose]();
  }

  #index(name: string): ModelIndex {
    const { index, path } = this.#options;
    if (index) return index;
    throw new Error(`Cannot load the ${name} of "${basename(path)}": no file for it was named`);
  }

  #keep(checkpoint: Checkpoint): Checkpoint {
    this.#opened.push(checkpoint);
    return checkpoint;
  }
}

function componentFiles(file: ConfigFile, open: () => TensorSource): ComponentFiles {
  return { ...file, open, openWeights: (view = same) => new Weights(view(open())) };
}

function same(tensors: TensorSource): TensorSource {
  return tensors;
}
