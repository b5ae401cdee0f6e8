/** Commands with flags from tables. */

import { Command, InvalidArgumentError, Option, type ParseOptionsResult } from "commander";
import {
  defaultsOf,
  type Flag,
  type Flags,
  type FlagValues,
  isBoolean,
} from "../generation/flag.ts";
import { UsageError } from "./failure.ts";
import { flagName } from "./field_flags.ts";

const INPUTS = ["prompt", "negative-prompt", "mask", "video", "audio", "from"];

/** Flags of the reference and of peers that are called otherwise here. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ["--num-outputs-per-prompt", "--num-outputs"],
  ["--output-file-path", "--output"],
  ["--image-path", "--image"],
  ["--image-paths", "--image"],
  ["--video-path", "--video"],
  ["--model", "--model-path"],
  ["--steps", "--num-inference-steps"],
]);

/** Brings the names of flags into the spelling of this program: `--model_path` is `--model-path`. */
export function normalizeArgs(args: readonly string[]): string[] {
  return args.map((arg) => {
    const [, name, value = ""] = /^(--[a-z][\w-]*)(=[\s\S]*)?$/i.exec(arg) ?? [];
    if (name === undefined) return arg;
    const dashed = name.replaceAll("_", "-");
    return (ALIASES.get(dashed) ?? dashed) + value;
  });
}

export function flagOf(name: string, { flag, kind }: Flag<unknown>): string {
  return flag ?? (kind === "off" ? flagName(name).replace("--", "--no-") : flagName(name));
}

function optionOf(name: string, flag: Flag<unknown>): Option {
  const { kind, placeholder, choices, shown, short } = flag;
  const value = kind === "switch"
    ? ` [${placeholder}]`
    : kind === "value"
    ? ` <${placeholder}>`
    : "";
  const option = new Option(
    [short, flagOf(name, flag) + value].filter(Boolean).join(", "),
    flag.text,
  );
  if (choices) option.choices(choices as string[]);
  else if (flag.read) option.argParser((text, before) => read(flag, text, before));
  if (kind === "value" && flag.default !== undefined) option.default(flag.default, shown);
  return option.makeOptionMandatory(flag.isMandatory === true);
}

function read({ read }: Flag<unknown>, text: string, before: unknown): unknown {
  try {
    return read!(text, before);
  } catch (error) {
    if (error instanceof RangeError) throw new InvalidArgumentError(error.message);
    throw error;
  }
}

/** The values of a command's flags: what was given, else a user's own defaults, else the table's. */
export function valuesOf<Table extends Flags>(
  command: Command,
  table: Table,
  own: ReadonlyMap<string, { readonly value: unknown }> = new Map(),
): FlagValues<Table> {
  const set = Object.fromEntries([...own].map(([row, { value }]) => [row, value]));
  return { ...defaultsOf(table), ...set, ...givenOf(command, table) };
}

/** The values of flags that were given. */
export function givenOf<Table extends Flags>(
  command: Command,
  table: Table,
): Partial<FlagValues<Table>> {
  const values = Object.entries(table).flatMap(([name, flag]) => {
    const attribute = optionOf(name, flag).attributeName();
    const source = command.getOptionValueSource(attribute) ?? "default";
    if (source === "default") return [];
    const value = command.getOptionValue(attribute);
    // `--x` and `--no-x` of two rows have one value.
    const isOff = value === false;
    return flag.kind === "value" && isOff || flag.kind === "off" && !isOff ? [] : [[name, value]];
  });
  return Object.fromEntries(values);
}

/** Names of flags by the headings under which a help shows them. */
export type FlagGroups = Readonly<Record<string, readonly string[]>>;

/** A command with flags from tables. It takes the word after a switch, such as `--json MODEL`, for its own unless it is true or false. */
export class FlagCommand extends Command {
  constructor(name?: string, description: string = "") {
    super(name);
    this.description(description)
      .exitOverride()
      .allowExcessArguments(false)
      // The end of the program writes one sentence to standard error.
      .configureOutput({ outputError: () => {} });
  }

  /** Adds flags, those of groups first. A second prompt, mask or video is refused; of other options the last value counts. */
  addFlags(table: Flags, groups: FlagGroups = {}): this {
    const order = new Set([...Object.values(groups).flat(), ...Object.keys(table)]);
    for (const name of order) {
      const flag = table[name]!;
      const option = optionOf(name, flag);
      const heading = Object.keys(groups).find((heading) => groups[heading]!.includes(name));
      if (heading !== undefined) option.helpGroup(`${heading}:`);
      this.addOption(option);
      let count = 0;
      this.on(`option:${option.name()}`, () => {
        if (++count < 2 || !INPUTS.includes(option.name())) return;
        throw new UsageError(`Cannot use ${option.long} twice: it takes one value`);
      });
    }
    return this;
  }

  override parseOptions(args: string[]): ParseOptionsResult {
    return super.parseOptions(this.registeredArguments.length > 0 ? this.#closed(args) : args);
  }

  /** The arguments with `--switch=true` for `--switch` where no value of it follows. */
  #closed(args: readonly string[]): string[] {
    const closed = [...args];
    for (let index = 0; index < args.length && args[index] !== "--"; index++) {
      const option = this.options.find(({ long }) => long === args[index]);
      if (option?.required) index++;
      else if (option?.optional && !isBoolean(args[index + 1] ?? "")) {
        closed[index] = `${args[index]}=true`;
      }
    }
    return closed;
  }
}
