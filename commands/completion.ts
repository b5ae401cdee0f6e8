/** `denoise completion`: scripts that complete commands, flags and names in a shell. */

import { CATALOGUE } from "../hub/catalogue.ts";
import { CATALOGUE_PARTS } from "../hub/catalogue_parts.ts";
import type { Flags } from "../generation/flag.ts";
import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { UsageError } from "./failure.ts";
import { flagOf } from "./flag_command.ts";
import type { FlagTables } from "./own_defaults.ts";
import { print } from "./print.ts";

const SHELLS = ["bash", "zsh", "fish"];

/** Commands whose first words are names of models. */
const TAKES_MODELS = ["run", "plan", "pull", "rm", "inspect", "quantize"];

export function runCompletion(
  shell: string,
  commands: readonly (readonly [name: string, text: string])[],
  tables: FlagTables,
): Promise<number> {
  if (!SHELLS.includes(shell)) {
    throw new UsageError(
      `Cannot complete in ${shell}: there are scripts for ${SHELLS.join(", ")}`,
    );
  }
  print(shell === "fish" ? fishScript(commands, tables) : bashScript(commands, tables, shell));
  return Promise.resolve(0);
}

const models = [BUNDLED_MODEL, ...CATALOGUE.map(({ name }) => name)];

/** Words that a flag takes; undefined for any. */
function wordsOf(row: string, { choices }: Flags[string]): readonly string[] | undefined {
  const parts = CATALOGUE_PARTS.filter(({ part }) => part === row);
  if (parts.length > 0) return parts.map(({ name }) => name);
  if (row === "modelPath" || row === "against") return models;
  return choices?.map(String);
}

function bashScript(
  commands: readonly (readonly [name: string, text: string])[],
  tables: FlagTables,
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
      const words = wordsOf(row, flag);
      if (!words) continue;
      const names = [flagOf(row, flag), flag.short].filter(Boolean);
      const cases = names.map((name) => `"${command} ${name}"`).join("|");
      values.push(`    ${cases}) words="${words.join(" ")}" ;;`);
    }
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
    ${TAKES_MODELS.map((name) => `"${name} ${name}"`).join("|")}) words="${models.join(" ")}" ;;
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
): string {
  const quoted = (text: string) => `'${text.replace(/[\\']/g, "\\$&")}'`;
  const lines = commands.map(([name, text]) =>
    `complete -c denoise -n __fish_use_subcommand -f -a ${name} -d ${quoted(text)}`
  );
  for (const [command, table] of tables) {
    const only = `complete -c denoise -n '__fish_seen_subcommand_from ${command}'`;
    if (TAKES_MODELS.includes(command)) lines.push(`${only} -a ${quoted(models.join(" "))}`);
    for (const [row, flag] of Object.entries(table)) {
      const words = wordsOf(row, flag);
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
