/** From a prompt to its pieces, by the syntax of the program that it was written for. */
import { parseA1111 } from "./a1111.ts";
import { parseComfyUi } from "./comfyui.ts";
import type { PromptPiece } from "./weighted_text.ts";

/** How a prompt says what weighs more: not at all, as in AUTOMATIC1111's web UI, or as in ComfyUI. */
export type PromptSyntax = "plain" | "a1111" | "comfyui";

export const PROMPT_SYNTAXES: readonly PromptSyntax[] = ["plain", "a1111", "comfyui"];

/** Weights beyond which no prompt means anything. */
const MAX_WEIGHT = 1000;

/** The pieces of a prompt, in order. Throws `RangeError` when it nests or weighs more than any prompt. */
export function parsePrompt(prompt: string, syntax: PromptSyntax): PromptPiece[] {
  const pieces = syntax === "a1111"
    ? parseA1111(prompt)
    : syntax === "comfyui"
    ? parseComfyUi(prompt)
    : [{ text: prompt, weight: 1 }];
  for (const piece of pieces) {
    if (piece === "break" || Math.abs(piece.weight) <= MAX_WEIGHT) continue;
    throw new RangeError(
      `Cannot read the prompt: "${
        piece.text.slice(0, 40)
      }" weighs ${piece.weight}, the limit is ${MAX_WEIGHT}; ` +
        "write \\( for a parenthesis that is part of the text",
    );
  }
  return pieces;
}
