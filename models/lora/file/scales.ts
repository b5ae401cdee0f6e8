/** How strongly factors count: alpha as the trainers mean it. */
import type { LoraFile } from "./lora_file.ts";
import { MisfitError } from "./change_kinds.ts";
import type { ModuleTensors } from "./keys.ts";
import { GIVE_ALPHA, type LoraSettings, readSettings, settingsOfMetadata } from "./settings.ts";

/** PEFT's own file, by its name or its keys: only then is `adapter_config.json` about it. */
const PEFT_FILE = /(^|[/\\])adapter_model\.safetensors$/;
const PEFT_KEY = "base_model.model.";

export class Scales {
  readonly #settings: readonly LoraSettings[];
  readonly #alpha: number | undefined;
  readonly #file: LoraFile;

  private constructor(file: LoraFile, settings: LoraSettings[], alpha: number | undefined) {
    [this.#file, this.#settings, this.#alpha] = [file, settings, alpha];
  }

  static async read(file: LoraFile, alpha: number | undefined): Promise<Scales> {
    if (alpha !== undefined && !(Number.isFinite(alpha) && alpha > 0)) {
      throw new RangeError(`Cannot use the alpha ${alpha}: it has to be a number above 0`);
    }
    const settings = settingsOfMetadata(file.metadata, file.path);
    const isPeft = PEFT_FILE.test(file.path) ||
      file.tensors.keys().some((key) => key.startsWith(PEFT_KEY));
    if (settings.length === 0 && isPeft) {
      const beside = await readSettings(file.path.replace(/[^/\\]*$/, "adapter_config.json"));
      if (beside) settings.push(beside);
    }
    return new Scales(file, settings, alpha);
  }

  /** The alpha asked for, the module's, or the settings', over the rank or its root; 1 without alpha, or without a rank. */
  scaleOf({ name, parts }: ModuleTensors, rank: number | undefined): number {
    const settings = this.#settings.find(({ prefix }) => name.startsWith(prefix));
    const divisor = (of: number) => settings?.isRankStabilised ? Math.sqrt(of) : of;
    if (this.#alpha !== undefined) {
      return rank === undefined ? 1 : finite(name, this.#alpha / divisor(rank));
    }
    const own = parts.get("alpha");
    if (own) {
      const alpha = this.#file.readNumber(own);
      if (alpha === undefined || !Number.isFinite(alpha)) {
        throw new MisfitError(
          `"${own.name}" is ${
            alpha ?? `of type ${own.format} and shape [${own.shape}]`
          }, not a number`,
        );
      }
      return finite(name, rank === undefined ? 1 : alpha / rank);
    }
    if (!settings) return 1;
    const module = name.slice(settings.prefix.length).replace(/^base_model\.model\./, "");
    const [said, alpha] = [settings.rankOf(module), settings.alphaOf(module)];
    if (said !== undefined && rank !== undefined && said !== rank) {
      throw new MisfitError(
        `"${name}" has rank ${rank}, ${settings.source} says ${said}, so it was written for another ` +
          `file, or before the LoRA was resized; ${GIVE_ALPHA}`,
      );
    }
    const of = rank ?? said;
    return alpha === undefined || of === undefined ? 1 : finite(name, alpha / divisor(of));
  }

  isDora({ name }: ModuleTensors): boolean {
    return this.#settings.find(({ prefix }) => name.startsWith(prefix))?.isDora ?? false;
  }
}

function finite(module: string, scale: number): number {
  if (Number.isFinite(Math.fround(scale))) return scale;
  throw new MisfitError(`"${module}" would be scaled by ${scale}, which is no f32`);
}
