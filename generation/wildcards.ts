/** Wildcards: `{red|green}` in a prompt is one of the words, chosen by the seed. A backslash before a brace or a bar makes it text. */

/** A group that is open: its words so far, and the word that is being read. */
interface Group {
  readonly words: string[];
  word: string;
}

/** How often words are chosen until some are left. */
const MAX_TRIES = 64;

/** A prompt with words in place of its choices; inner choices are made first. The same seed chooses the same words. Empty only where all choices are. */
export function chooseWords(prompt: string, seed: number): string {
  let state = seed % 2 ** 32;
  const choose = (words: readonly string[]) => {
    // One step of mulberry32.
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return words[((mixed ^ (mixed >>> 14)) >>> 0) % words.length]!;
  };
  for (let tries = 1; tries < MAX_TRIES; tries++) {
    const chosen = written(prompt, choose);
    if (chosen.trim() !== "") return chosen;
  }
  return written(prompt, choose);
}

/** A prompt with what `choose` takes of each group. */
function written(prompt: string, choose: (words: readonly string[]) => string): string {
  const open: Group[] = [{ words: [], word: "" }];
  const close = (closed: (words: readonly string[]) => string) => {
    const { words, word } = open.pop()!;
    open.at(-1)!.word += closed([...words, word]);
  };
  for (const [piece] of prompt.matchAll(/\\[{|}]|[{|}]|[^{|}\\]+|\\/g)) {
    const group = open.at(-1)!;
    if (piece === "{") open.push({ words: [], word: "" });
    else if (piece === "|" && open.length > 1) {
      group.words.push(group.word);
      group.word = "";
    } else if (piece === "}" && open.length > 1) {
      close((words) => words.length > 1 ? choose(words) : `{${words[0]}}`);
    } else group.word += piece.length === 2 && piece[0] === "\\" ? piece[1] : piece;
  }
  // A brace that nothing closes is text. join() would copy the inner text at every depth; concatenation does not.
  while (open.length > 1) close((words) => `{${words.reduce((text, word) => `${text}|${word}`)}`);
  return open[0]!.word;
}

/** Whether a brace of a prompt is text because nothing closes it. */
export function hasOpenBrace(prompt: string): boolean {
  let open = 0;
  for (const [piece] of prompt.matchAll(/\\[{|}]|[{}]/g)) {
    if (piece === "{") open++;
    else if (piece === "}" && open > 0) open--;
  }
  return open > 0;
}

/** What a request draws for one of its seeds. */
export function promptOf(
  { prompt, wildcards }: { readonly prompt: string; readonly wildcards?: boolean | undefined },
  seed: number,
): string {
  return wildcards ? chooseWords(prompt, seed) : prompt;
}
