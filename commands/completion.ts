/** `denoise completion`: scripts that complete commands, flags and names in a shell. */

import { findCacheFolder } from "../hub/cache.ts";
import { listCachedModels } from "../hub/cached_models.ts";
import { CATALOGUE } from "../hub/catalogue.ts";
import { CATALOGUE_PARTS } from "../hub/catalogue_parts.ts";
import { readOwnModels } from "../hub/own_models.ts";
import type { Flags } from "../generation/flag.ts";
import { BUNDLED_LORAS, BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { UsageError } from "./failure.ts";
import { flagOf } from "./flag_command.ts";
import type { FlagTables } from "./own_defaults.ts";
import { print } from "./print.ts";

const SHELLS = ["bash", "zsh", "fish"];

/** Names that are known on this machine alone. */
interface OwnNames {
  /** Of models, in the file of own names. */
  readonly models: readonly string[];
  /** Of repositories, in the cache. */
  readonly cached: readonly string[];
}

/** A shell reads this at its start: where a file cannot be read, the names that are known everywhere do. */
async function ownNames(): Promise<OwnNames> {
  const folder = findCacheFolder();
  const [cached, own] = await Promise.all([
    folder === undefined ? [] : listCachedModels(folder).catch(() => []),
    readOwnModels().catch(() => new Map()),
  ]);
  return { models: [...own.keys()], cached: cached.map(({ id }) => id) };
}

export async function runCompletion(
  shell: string,
  commands: readonly (readonly [name: string, text: string])[],
  tables: FlagTables,
  own?: OwnNames,
): Promise<number> {
  if (!SHELLS.includes(shell)) {
    throw new UsageError(
      `Cannot complete in ${shell}: there are scripts for ${SHELLS.join(", ")}`,
    );
  }
  const words = new Words(own ?? await ownNames(), commands.map(([name]) => name));
  print(
    shell === "fish"
      ? fishScript(commands, tables, words)
      : bashScript(commands, tables, words, shell),
  );
  return 0;
}

/** What may follow commands and flags. */
class Words {
  /** By command: its words without flags. */
  readonly ofCommands: ReadonlyMap<string, readonly string[]>;
  readonly #models: readonly string[];

  constructor({ models: own, cached }: OwnNames, commands: readonly string[]) {
    const named = CATALOGUE.map(({ name }) => name);
    const parts = CATALOGUE_PARTS.map(({ name }) => name);
    const models = this.#models = [BUNDLED_MODEL, ...named, ...own, ...cached];
    this.ofCommands = new Map([
      ...["run", "plan", "inspect", "quantize"].map((name) => [name, models] as const),
      ["pull", [...named, ...parts]],
      ["rm", [...named, ...parts, ...cached]],
      ["completion", SHELLS],
      ["help", commands],
    ]);
  }

  /** Words that a flag takes; undefined for any. */
  ofFlag(row: string, { choices }: Flags[string]): readonly string[] | undefined {
    const parts = CATALOGUE_PARTS.filter(({ part }) => part === row);
    if (parts.length > 0) return parts.map(({ name }) => name);
    if (row === "modelPath" || row === "against") return this.#models;
    if (row === "lora") return Object.keys(BUNDLED_LORAS);
    return choices?.map(String);
  }
}

/** The command that takes several words. */
const TAKES_MANY = "rm";

function bashScript(
  commands: readonly (readonly [name: string, text: string])[],
  tables: FlagTables,
  all: Words,
  shell: string,
): string {
  const values: string[] = [];
  const flags: string[] = [];
  for (const [command, table] of tables) {
    const rows = Object.entries(table);
    flags.push(
      `    ${command}) flags="${rows.map(([row, flag]) => flagOf(row, flag)).join(" ")}" ;;`,
    );
    for (const [row, flag] of rows) {
      const words = all.ofFlag(row, flag);
      if (!words) continue;
      const names = [flagOf(row, flag), flag.short].filter(Boolean);
      const cases = names.map((name) => `"${command} ${name}"`).join("|");
      values.push(`    ${cases}) words="${words.join(" ")}" ;;`);
    }
  }
  for (const [command, words] of all.ofCommands) {
    const before = command === TAKES_MANY ? "*" : command;
    values.push(`    "${command} "${before}) words="${words.join(" ")}" ;;`);
  }
  return `# Completion of denoise for ${shell}
${
    shell === "zsh"
      ? "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n"
      : ""
  }_denoise() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  local command="\${COMP_WORDS[1]}" words="" flags=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=( $(compgen -W "${commands.map(([name]) => name).join(" ")}" -- "$word") )
    return
  fi
  case "$command" in
${flags.join("\n")}
  esac
  case "$command $before" in
${values.join("\n")}
  esac
  case "$word" in
    -*) COMPREPLY=( $(compgen -W "$flags --help" -- "$word") ) ;;
    *) COMPREPLY=( $(compgen -W "$words" -- "$word") ) ;;
  esac
}
complete -o default -F _denoise denoise ./denoise`;
}

function fishScript(
  commands: readonly (readonly [name: string, text: string])[],
  tables: FlagTables,
  all: Words,
): string {
  const quoted = (text: string) => `'${text.replace(/[\\']/g, "\\$&")}'`;
  const lines = commands.map(([name, text]) =>
    `complete -c denoise -n __fish_use_subcommand -f -a ${name} -d ${quoted(text)}`
  );
  const onlyOf = (command: string) =>
    `complete -c denoise -n '__fish_seen_subcommand_from ${command}'`;
  for (const [command, words] of all.ofCommands) {
    lines.push(`${onlyOf(command)} -a ${quoted(words.join(" "))}`);
  }
  for (const [command, table] of tables) {
    const only = onlyOf(command);
    for (const [row, flag] of Object.entries(table)) {
      const words = all.ofFlag(row, flag);
      const short = flag.short ? ` -s ${flag.short.slice(1)}` : "";
      const value = flag.kind === "value" ? " -r" : "";
      const choices = words ? ` -a ${quoted(words.join(" "))}` : "";
      lines.push(
        `${only}${short} -l ${flagOf(row, flag).slice(2)}${value}${choices} -d ${
          quoted(flag.text)
        }`,
      );
    }
  }
  return ["# Completion of denoise for fish", ...lines].join("\n");
}
