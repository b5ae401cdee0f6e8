/** Prompts that were used before, by the arrow keys. */

import { jobs } from "./jobs.ts";
import { memory } from "./store.ts";

const MAX_KEPT = 100;

/** The newest first: those that were written here, then those of the results. */
function used(): string[] {
  const written = memory.read<string[]>("prompts", []);
  return [...new Set([...written, ...jobs.state.list.flatMap(({ prompt }) => prompt || [])])];
}

export function notePrompt(prompt: string): void {
  memory.write("prompts", [...new Set([prompt, ...used()])].slice(0, MAX_KEPT));
}

/** The prompt that an arrow leads to; undefined where the arrow moves the cursor. */
export function promptAt({ key, currentTarget: field }: KeyboardEvent): string | undefined {
  const step = { ArrowUp: 1, ArrowDown: -1 }[key];
  const { value, selectionStart, selectionEnd } = field as HTMLTextAreaElement;
  const isAtEdge = selectionStart === selectionEnd &&
    (selectionStart === 0 || selectionStart === value.length);
  if (step === undefined || !isAtEdge) return undefined;
  const prompts = used();
  const place = prompts.indexOf(value.trim());
  // A prompt that is being written is not replaced.
  if (value !== "" && place < 0) return undefined;
  return place + step === -1 ? "" : prompts[place + step];
}
