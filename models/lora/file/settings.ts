/** What the trainer wrote beside the tensors: PEFT's `adapter_config.json`, and diffusers' copy of it in the header. */
import { NotFoundError } from "../../../platform/mod.ts";
import { excerpt, readJsonObject } from "../../../hub/json_file.ts";
import { isObject } from "../../../hub/json_file.ts";
import { LoraError } from "../lora_error.ts";
import { MisfitError } from "./change_kinds.ts";

/** How strongly factors count where the file has no alpha of their own. */
export interface LoraSettings {
  readonly source: string;
  readonly prefix: string;
  rankOf(module: string): number | undefined;
  alphaOf(module: string): number | undefined;
  /** Whether alpha is divided by the root of the rank (Kalajdzievski 2023, "A Rank Stabilization Scaling Factor"). */
  readonly isRankStabilised: boolean;
  /** Whether lengths of rows belong to every change (DoRA). */
  readonly isDora: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

export const GIVE_ALPHA =
  "give the alpha yourself: alpha=16 behind the path of --lora, lora_alpha over HTTP, alpha in the library";

const MAX_BYTES = 1024 * 1024;

const METHODS: readonly string[] = ["LORA", "LOHA", "LOKR"];

const REFUSED: readonly (readonly [field: string, why: string])[] = [
  ["fan_in_fan_out", "its factors are of transposed weights"],
  ["modules_to_save", "it replaces whole modules"],
  ["layer_replication", "it repeats layers of the model"],
  ["alora_invocation_tokens", "it is switched on by tokens in the middle of a prompt"],
  ["trainable_token_indices", "it changes embeddings of single tokens"],
  ["target_parameters", "it changes parameters that are no layers"],
  ["use_qalora", "it pools its input (QALoRA)"],
  ["use_bdlora", "its factors are block-diagonal (BD-LoRA)"],
];

/** Ways to begin that change the model's own weights, so that the factors alone do not give what was trained. */
const CHANGED_BASES = /^(pissa|olora|corda|loftq|lora_ga)/;

export async function readSettings(path: string): Promise<LoraSettings | undefined> {
  let fields: Fields;
  try {
    fields = await readJsonObject(path, { maxBytes: MAX_BYTES });
  } catch (cause) {
    if (cause instanceof NotFoundError) return undefined;
    throw new LoraError((cause as Error).message, [], { cause });
  }
  const method = fields.peft_type;
  if (method !== undefined && !METHODS.some((known) => known === method)) {
    throw new LoraError(
      `Cannot use the LoRA of "${path}": it is of the method ${excerpt(method)}; ` +
        `PEFT's ${METHODS.join(", ")} are known`,
    );
  }
  return settingsOf(fields, `"${path}"`, "");
}

export function settingsOfMetadata(
  metadata: Readonly<Record<string, string>>,
  path: string,
): LoraSettings[] {
  const text = metadata.lora_adapter_metadata;
  const source = `the metadata of "${path}"`;
  if (text !== undefined) {
    // One object for all components, each field after the component's name and a dot.
    const byComponent = new Map<string, Record<string, unknown>>();
    for (const [key, value] of Object.entries(parseFields(text, source))) {
      const dot = key.indexOf(".");
      const component = dot === -1 ? "" : key.slice(0, dot + 1);
      const fields = byComponent.get(component) ?? {};
      fields[key.slice(dot + 1)] = value;
      byComponent.set(component, fields);
    }
    return [...byComponent].map(([prefix, fields]) => settingsOf(fields, source, prefix));
  }
  const alpha = metadata.lora_alpha ?? metadata.network_alpha ?? metadata.alpha;
  if (alpha === undefined) return [];
  if (alpha.trim() !== "" && Number.isFinite(Number(alpha))) {
    return [settingsOf({ lora_alpha: Number(alpha) }, source, "")];
  }
  // Modules may have alphas of their own, and then nobody asks.
  const alphaOf = () => {
    throw new MisfitError(
      `the alpha in ${source} is ${excerpt(alpha)}, not a number; ${GIVE_ALPHA}`,
    );
  };
  return [{ ...settingsOf({}, source, ""), alphaOf }];
}

function settingsOf(fields: Fields, source: string, prefix: string): LoraSettings {
  const refused = REFUSED.filter(([field]) => isSet(fields[field]))
    .map(([field, why]) => `${field} is set: ${why}`);
  if (fields.bias !== undefined && fields.bias !== "none") {
    refused.push(`bias is ${excerpt(fields.bias)}: it replaces whole biases`);
  }
  const start = fields.init_lora_weights;
  if (typeof start === "string" && CHANGED_BASES.test(start)) {
    refused.push(
      `init_lora_weights is ${excerpt(start)}: it belongs to changed weights of the model; ` +
        "convert it to a plain LoRA with PEFT",
    );
  }
  if (refused.length > 0) {
    throw new LoraError(`Cannot use ${source}: ${refused[0]}`, refused);
  }
  const number = (field: string) => numberOf(fields[field], field, source);
  const rank = number("r");
  const alpha = number("lora_alpha") ?? number("alpha");
  const ranks = new Patterns(fields.rank_pattern, "rank_pattern", source);
  const alphas = new Patterns(fields.alpha_pattern, "alpha_pattern", source);
  return {
    source,
    prefix,
    rankOf: (module) => ranks.find(module) ?? rank,
    alphaOf: (module) => alphas.find(module) ?? alpha,
    isRankStabilised: isTrue(fields.use_rslora),
    isDora: isTrue(fields.use_dora),
  };
}

const PLAIN_PATTERN = /^\^?[\w.\\-]+\$?$/;

/** Numbers for modules; of several patterns that match one, the first counts. */
class Patterns {
  /** Values by the end of a module's name, from a dot on, or by the whole name, which begins with `^`. */
  readonly #values = new Map<string, { readonly order: number; readonly value: number }>();

  /** PEFT would take any regular expression; these are names. */
  constructor(value: unknown, field: string, source: string) {
    if (value === undefined || value === null) return;
    if (!isObject(value)) {
      throw new LoraError(`Cannot use ${source}: its ${field} is ${excerpt(value)}, not an object`);
    }
    for (const [order, [pattern, number]] of Object.entries(value).entries()) {
      const name = pattern.replace(/\$$/, "").replaceAll("\\.", ".");
      if (!PLAIN_PATTERN.test(pattern) || name.includes("\\")) {
        throw new LoraError(
          `Cannot use ${source}: its ${field} has the expression ${excerpt(pattern)}, names of ` +
            `modules are known; ${GIVE_ALPHA}`,
        );
      }
      const valueOf = numberOf(number, `${field} of ${excerpt(pattern)}`, source);
      if (valueOf === undefined) {
        throw new LoraError(
          `Cannot use ${source}: its ${field} has no number for ${excerpt(pattern)}`,
        );
      }
      if (!this.#values.has(name)) this.#values.set(name, { order, value: valueOf });
    }
  }

  /** The number for a module. There may be many patterns and many modules: none is tried one by one. */
  find(module: string): number | undefined {
    let first = this.#values.get(`^${module}`);
    for (let start = 0; start !== -1;) {
      const found = this.#values.get(module.slice(start));
      if (found && found.order < (first?.order ?? Infinity)) first = found;
      const dot = module.indexOf(".", start);
      start = dot === -1 ? -1 : dot + 1;
    }
    return first?.value;
  }
}

function parseFields(text: string, source: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new LoraError(`Cannot read ${source}: it is not JSON`, [], { cause });
  }
  if (!isObject(value)) throw new LoraError(`Cannot read ${source}: it is no JSON object`);
  return value;
}

function numberOf(value: unknown, field: string, source: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new LoraError(`Cannot use ${source}: its ${field} is ${excerpt(value)}, not a number`);
  }
  return value;
}

function isSet(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value !== undefined && value !== null && value !== false;
}

function isTrue(value: unknown): boolean {
  return value === true || (typeof value === "string" && value.toLowerCase() === "true");
}
