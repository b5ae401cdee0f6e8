/** Pieces of a prompt and how much they weigh. */

/** Text of one weight. */
export interface WeightedText {
  readonly text: string;
  readonly weight: number;
}

/** A piece of a prompt, or where the rest begins in a text of its own. */
export type PromptPiece = WeightedText | "break";

/** Parentheses that may be open at once. */
const MAX_OPEN = 100;

export function checkOpen(count: number): void {
  if (count <= MAX_OPEN) return;
  throw new RangeError(
    `Cannot read the prompt: more than ${MAX_OPEN} parentheses are open; write \\( for one that is part of the text`,
  );
}
