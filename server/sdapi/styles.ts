/** Styles of Stable Diffusion WebUI: prompts with names, from its styles.csv. */

import { readFileSync } from "node:fs";
import { shorten } from "../../generation/texts.ts";
import { badRequest } from "../contract/errors.ts";

export interface Style {
  readonly name: string;
  readonly prompt: string;
  readonly negative_prompt: string;
}

/** The styles of a file. @throws {Error} where it cannot be read, or has no column of names */
export function readStyles(path: string | undefined): readonly Style[] {
  if (path === undefined) return [];
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new Error(`Cannot read the styles of "${path}": ${(cause as Error).message}`, { cause });
  }
  const [header = [], ...rows] = parseCsv(text.replace(/^\ufeff/, ""));
  if (!header.includes("name")) {
    throw new Error(
      `Cannot read the styles of "${path}": its first line has no column 'name'; it must be name,prompt,negative_prompt`,
    );
  }
  const column = (row: readonly string[], name: string) => row[header.indexOf(name)] ?? "";
  return rows.map((row) => ({
    name: column(row, "name").trim(),
    // Files of old versions have the prompt under another name.
    prompt: column(row, "prompt") || column(row, "text"),
    negative_prompt: column(row, "negative_prompt"),
  })).filter(({ name }) => name !== "");
}

/** Rows of cells; a quoted cell may hold commas, lines, and quotes as two of them. */
export function parseCsv(text: string): string[][] {
  const rows: string[][] = [[]];
  for (
    const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)
  ) {
    rows.at(-1)!.push(quoted === undefined ? plain! : quoted.replaceAll('""', '"'));
    if (end !== ",") rows.push([]);
  }
  return rows.filter((row) => row.some((cell) => cell !== ""));
}

/** A prompt with styles, which stand behind it, or around it where they have `{prompt}`. */
export function styled(prompt: string, styles: readonly string[]): string {
  return styles.reduce((text, style) => {
    if (style.includes("{prompt}")) return style.replaceAll("{prompt}", () => text);
    return [text, style].map((part) => part.trim()).filter((part) => part !== "").join(", ");
  }, prompt);
}

/** Styles by name. @throws {ApiError} 400 for one that is not there */
export function findStyles(
  names: readonly string[] | null | undefined,
  styles: readonly Style[],
): readonly Style[] {
  return (names ?? []).map((name) => {
    const found = styles.find((style) => style.name === name);
    if (found) return found;
    const known = styles.map((style) => `'${style.name}'`).join(", ") || "none";
    throw badRequest(
      `Cannot use the style '${shorten(name)}': this server has ${
        shorten(known, 500)
      }; --styles names a file of them`,
      "styles",
    );
  });
}
