import type { CutPrompt } from "../models/mod.ts";
import type { ModelInfo } from "./types.ts";

/** What of a prompt is not read, why, and what helps, in a sentence. */
export function describeCut(
  { prompt, tokens, read, unread }: CutPrompt,
  { maxSequenceLength: most = 0 }: Partial<Pick<ModelInfo, "maxSequenceLength">> = {},
): string {
  const name = prompt.replace("_", " ");
  if (read === 0) return `The ${name} is not read, for there is no guidance: "${unread}"`;
  const more = read < most ? `; max_sequence_length reads up to ${most}` : "";
  return `The ${name} has ${tokens} tokens, and the first ${read} are read; not read: "${unread}"${more}`;
}
