/** Prompts as cross-attention takes them. */

/**
 * Rows of the prompt tensors, one of them padding unless the prompt fills them. They have few lengths, so that their
 * programs are shared: 16, 32, 64, …
 */
export function contextRows(longest: number, maxLength: number): number {
  return Math.max(16, 2 ** Math.ceil(Math.log2(Math.min(longest + 1, maxLength))));
}

/**
 * What cross-attention takes beside the text encoder's states. The reference attends all `maxLength` rows; those after
 * the prompt are equal, so one row stands for them all with the logarithm of their number added to its logit.
 *
 * @param tokens ids of every prompt
 * @returns for every prompt the rows to attend, and what is added to the logit of the last
 */
export function contextPadding(
  tokens: readonly (readonly number[])[],
  maxLength: number,
): { readonly lengths: number[]; readonly padLogits: number[] } {
  const pads = tokens.map(({ length }) => maxLength - length);
  return {
    lengths: tokens.map(({ length }, i) => (pads[i]! > 0 ? length + 1 : length)),
    padLogits: pads.map((count) => (count > 0 ? Math.log(count) : 0)),
  };
}
