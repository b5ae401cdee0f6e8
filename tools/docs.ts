/** Writes the tables of docs/ (`deno task docs`) between markers such as `<!-- fields -->` and `<!-- /fields -->`. */
import type { Command, Option } from "commander";
import { FlagCommand } from "../commands/flag_command.ts";
import { MODEL_FLAGS } from "../commands/flags.ts";
import { createProgram } from "../commands/program.ts";
import { CATALOGUE, type CatalogueModel } from "../hub/catalogue.ts";
import { precisionsOf, transformerBytes } from "../hub/precision.ts";
import {
  imageEditFieldTable,
  imageFieldTable,
  videoFieldTable,
} from "../server/contract/generation_fields.ts";
import {
  FIELD_NOTES,
  FIELD_VALUES,
  type FieldValues,
  VIDEO_FIELD_VALUES,
} from "../server/openapi/field_notes.ts";

const ROOT = new URL("../", import.meta.url);

const PAGES: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  "docs/http-api.md": { fields: fieldTable },
  "docs/cli.md": {
    commands: commandTable,
    "flags generate": () => flagTable("generate"),
    "flags model": () => flagTable("model"),
    "flags serve": () => flagTable("serve"),
  },
  "docs/models.md": { models: modelTable },
};

/** The text of every page with its tables as the code gives them, by path. */
export function documentedPages(): Map<string, string> {
  return new Map(
    Object.entries(PAGES).map(([path, tables]) => {
      let text = Deno.readTextFileSync(new URL(path, ROOT));
      for (const [name, make] of Object.entries(tables)) {
        const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
        const [from, to] = [text.indexOf(begin), text.indexOf(end)];
        if (from < 0 || to < from) {
          throw new Error(`Cannot write ${path}: it lacks ${begin}, ${end}`);
        }
        text = `${text.slice(0, from + begin.length)}\n\n${make()}\n\n${text.slice(to)}`;
      }
      return [path, text];
    }),
  );
}

/** A table as the formatter lays it out. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(cells[0]!), rule, ...cells.slice(1).map(line)].join("\n");
}

/** Fields of requests; names with the same text share a row. */
function fieldTable(): string {
  const bodies = Object.entries({
    images: imageFieldTable,
    edits: imageEditFieldTable,
    videos: videoFieldTable,
  }).map(([body, { known, withoutEffect }]) =>
    [body, known.filter((name) => !withoutEffect.has(name))] as const
  );
  const rows = new Map<string, { names: string[]; values: string; of: string }>();
  for (const name of new Set(bodies.flatMap(([, names]) => names))) {
    const text = FIELD_NOTES[name];
    if (!text) continue;
    const holders = bodies.filter(([, names]) => names.includes(name));
    const of = holders.length === 3 ? "all" : holders.map(([body]) => body).join(", ");
    const row = rows.get(text + of);
    if (row) row.names.push(name);
    else rows.set(text + of, { names: [name], values: valuesOf(name), of });
  }
  return table(
    ["Field", "For", "Meaning", "Values"],
    [...rows].map(([text, { names, values, of }]) => [
      names.map((name) => `\`${name}\``).join(", "),
      of,
      text.slice(0, -of.length),
      values,
    ]),
  );
}

function valuesOf(name: string): string {
  const ofVideos = VIDEO_FIELD_VALUES[name];
  return describeValues(FIELD_VALUES[name]) +
    (ofVideos ? `; of videos ${describeValues(ofVideos)}` : "");
}

function describeValues(values: FieldValues = { enum: [] }): string {
  if ("enum" in values) return values.enum.map((value) => `\`${value}\``).join(", ");
  return `from ${values.minimum}` + (values.maximum ? ` to ${values.maximum}` : "");
}

const commands = (): readonly Command[] => createProgram(() => {}).commands;

function commandTable(): string {
  const line = (command: Command) =>
    `\`${`${command.name()} ${command.usage().replace(/\[options\] ?/, "")}`.trimEnd()}\``;
  return table(
    ["Command", "Does"],
    commands().map((command) => [line(command), command.description()]),
  );
}

/** The flags of a command; those of the model and its memory have a table of their own. */
function flagTable(name: string): string {
  const model = new FlagCommand().addFlags(MODEL_FLAGS).options;
  const isOwn = ({ long }: Option) => model.every((other) => other.long !== long);
  const command = commands().find((command) => command.name() === name);
  return table(
    ["Flag", "Meaning"],
    (command?.options.filter(isOwn) ?? model).map(
      ({ flags, description, argChoices, defaultValue, defaultValueDescription }) => {
        const own = defaultValueDescription ?? (defaultValue === true ? undefined : defaultValue);
        const isTold = argChoices?.every((choice) => description.includes(choice)) ?? true;
        const choices = isTold ? "" : `: ${argChoices!.join(", ")}`;
        return [
          `\`${flags}\``,
          description + choices + (own === undefined ? "" : ` (default: ${own})`),
        ];
      },
    ),
  );
}

/** Models by name, those of equal size in one row. */
function modelTable(): string {
  const rows = Map.groupBy(CATALOGUE, (model) => sizes(model).join());
  return table(
    ["Name", "Transformer: bf16", "Q8_0", "Q4_K or Q4_0", "Text encoder: bf16", "Licence"],
    [...rows.values()].map((models) => [
      models.map(({ name }) => `\`${name}\``).join(", "),
      ...sizes(models[0]!),
    ]),
  );
}

function sizes(model: CatalogueModel): string[] {
  const types = precisionsOf(model);
  const four = types.find((type) => type.startsWith("q4"));
  return [
    ...["bf16", types.includes("q8_0") ? "q8_0" : undefined, four].map((type) =>
      type === undefined ? "" : (transformerBytes(model, type) / 1e9).toFixed(1)
    ),
    `${(model.textEncoderBytes / 1e9).toFixed(1)} (${model.textEncoder})`,
    model.licence,
  ];
}

if (import.meta.main) {
  for (const [path, text] of documentedPages()) Deno.writeTextFileSync(new URL(path, ROOT), text);
}
