/** A bound for what the stages of a tokenizer make of a text: those of a damaged or hostile file may double it each. */

/** Most UTF-16 code units that a text may have after any stage; prompts have some thousands. */
export const MAX_TEXT_LENGTH = 2 ** 20;

export function checkTextLength(length: number): void {
  if (length <= MAX_TEXT_LENGTH) return;
  throw new RangeError(
    `Cannot encode the text: the tokenizer makes more than ${MAX_TEXT_LENGTH} characters of it; ` +
      "shorten the text, or use the tokenizer that the model came with",
  );
}

export function replaceLiteral(from: string, to: string): (text: string) => string {
  return (text) => {
    if (from === "") return text;
    const parts = text.split(from);
    checkTextLength(text.length + (parts.length - 1) * (to.length - from.length));
    return parts.join(to);
  };
}

export function replaceMatches(regex: RegExp, to: string): (text: string) => string {
  return (text) => {
    let added = 0;
    return text.replace(regex, () => {
      added += to.length;
      checkTextLength(added);
      return to;
    });
  };
}
