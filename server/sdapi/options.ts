/** The options of Stable Diffusion WebUI: its clients set some and read them back. */

import { shorten } from "../../generation/texts.ts";
import { badRequest } from "../contract/errors.ts";

/** Most options that are kept, and most UTF-16 units of a name and of a value as JSON. */
const MAX_OPTIONS = 200;
const MAX_NAME = 200;
const MAX_VALUE = 1000;

/** Options that say how this server works; nobody can change them. */
const FIXED: Readonly<Record<string, unknown>> = {
  samples_format: "png",
  sd_checkpoint_hash: "",
  sd_vae: "Automatic",
  CLIP_stop_at_last_layers: 1,
  show_progress_every_n_steps: -1,
  live_previews_enable: true,
  enable_pnginfo: true,
};

/** The options of a server. All but the model change nothing. */
export class Options {
  #kept: ReadonlyMap<string, unknown> = new Map();

  /** The options, for `GET /sdapi/v1/options`. */
  read(model: string): Record<string, unknown> {
    return { ...Object.fromEntries(this.#kept), ...FIXED, sd_model_checkpoint: model };
  }

  /** Options that a request wants to be different, and that nobody can change. */
  fixed(given: Readonly<Record<string, unknown>>): string[] {
    return Object.keys(given).filter((name) =>
      Object.hasOwn(FIXED, name) && given[name] !== null && given[name] !== FIXED[name]
    );
  }

  /** Keeps all options that are not this server's own, or none. @throws {ApiError} 400 when they are too many, or one is too long */
  keep(given: Readonly<Record<string, unknown>>): void {
    const kept = new Map(this.#kept);
    for (const [name, value] of Object.entries(given)) {
      if (name === "sd_model_checkpoint" || Object.hasOwn(FIXED, name)) continue;
      if (name.length > MAX_NAME) {
        throw badRequest(
          `Cannot keep the option '${shorten(name)}': its name has ${name.length} characters, ` +
            `and at most ${MAX_NAME} are kept`,
          shorten(name),
        );
      }
      if (!isShort(value)) {
        throw badRequest(
          `Cannot keep the option '${shorten(name)}': its value must be a text, a number, a flag ` +
            `or a list of these, of at most ${MAX_VALUE} characters as JSON`,
          shorten(name),
        );
      }
      kept.set(name, value);
    }
    if (kept.size > MAX_OPTIONS) {
      throw badRequest(
        `Cannot keep ${kept.size} options: a server keeps at most ${MAX_OPTIONS}; send fewer names`,
      );
    }
    this.#kept = kept;
  }
}

function isShort(value: unknown): boolean {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  const isFlat = items.every((item) => item === null || typeof item !== "object");
  return isFlat && JSON.stringify(value).length <= MAX_VALUE;
}
