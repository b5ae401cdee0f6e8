/**
 * Weights of prompts as AUTOMATIC1111's web UI reads them: `(x)` and `[x]` are worth 1.1 and 1 / 1.1, `(x:1.3)` 1.3, all
 * multiplied where they nest; `\(` is a parenthesis; `BREAK` begins a text of its own.
 */
import { checkOpen, type PromptPiece, type WeightedText } from "./weighted_text.ts";

const STEP = 1.1;

/** An escaped sign, a lone backslash, brackets, a weight that ends a bracket, text, or a colon. */
const TOKEN = /\\[()[\]\\]|[\\()[\]]|:\s*(?<weight>[+-]?[.\d]+)\s*\)|[^\\()[\]:]+|:/g;
const BREAK = /\bBREAK\b/;

export function parseA1111(prompt: string): PromptPiece[] {
  refuseSchedules(prompt);
  const pieces: ("break" | { text: string; weight: number })[] = [];
  const open: Record<"(" | "[", number[]> = { "(": [], "[": [] };
  const close = (bracket: "(" | "[", factor: number) => {
    const start = open[bracket].pop()!;
    for (const piece of pieces.slice(start)) if (piece !== "break") piece.weight *= factor;
  };
  const add = (text: string) => pieces.push({ text, weight: 1 });
  for (const { 0: token, groups } of prompt.matchAll(TOKEN)) {
    const weight = Number(groups?.["weight"] ?? NaN);
    if (token === "(" || token === "[") {
      open[token].push(pieces.length);
      checkOpen(open["("].length + open["["].length);
    } else if (token.startsWith("\\")) add(token.slice(1));
    else if (open["("].length > 0 && Number.isFinite(weight)) close("(", weight);
    else if (open["("].length > 0 && token === ")") close("(", STEP);
    else if (open["["].length > 0 && token === "]") close("[", 1 / STEP);
    else {
      token.split(BREAK).forEach((text, i, { length }) => {
        const own = i > 0 ? text.trimStart() : text;
        if (i > 0) pieces.push("break");
        add(i < length - 1 ? own.trimEnd() : own);
      });
    }
  }
  while (open["("].length > 0) close("(", STEP);
  while (open["["].length > 0) close("[", 1 / STEP);
  return merged(pieces);
}

/** Refuses `[a:b:0.5]` and `[a|b]`, which the web UI reads as other prompts at other steps. */
function refuseSchedules(prompt: string): void {
  const open: { readonly start: number; mark: number; isAlternating: boolean }[] = [];
  for (let place = 0; place < prompt.length; place++) {
    const sign = prompt[place];
    if (sign === "\\") place++;
    else if (sign === "(" || sign === "[") {
      open.push({ start: place, mark: -1, isAlternating: false });
    } else if (sign === ":" && open.length > 0) open.at(-1)!.mark = place;
    else if (sign === "|" && open.length > 0) open.at(-1)!.isAlternating = true;
    else if (sign === ")" || sign === "]") {
      const group = open.pop();
      if (!group || sign === ")" || prompt[group.start] === "(") continue;
      const when = group.mark === -1 ? "" : prompt.slice(group.mark + 1, place).trim();
      if (!group.isAlternating && !/^[-+]?[.\d]+$/.test(when)) continue;
      throw new RangeError(
        `Cannot read the prompt: "${
          prompt.slice(group.start, place + 1).slice(0, 60)
        }" changes the prompt from step to step, which is not supported; write the words of one step`,
      );
    }
  }
}

/** Neighbours of one weight as one piece: words are not cut where a bracket was. */
function merged(pieces: readonly PromptPiece[]): PromptPiece[] {
  const all: ("break" | WeightedText)[] = [];
  for (const piece of pieces) {
    const before = all.at(-1);
    if (piece === "break") all.push(piece);
    else if (before && before !== "break" && before.weight === piece.weight) {
      all[all.length - 1] = { text: before.text + piece.text, weight: piece.weight };
    } else if (piece.text !== "") all.push(piece);
  }
  return all;
}
