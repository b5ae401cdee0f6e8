/** `{a|b}` in a prompt: one of the words, chosen by the seed. */

import type { Draft } from "./draft.ts";

const CHOICE = /\{([^{}]*\|[^{}]*)\}/;

/** A prompt with words in place of its choices; inner choices are made first. The same seed chooses the same words. */
export function chooseWords(prompt: string, seed: number): string {
  let state = seed % 2 ** 32;
  while (CHOICE.test(prompt)) {
    prompt = prompt.replace(CHOICE, (_all, choices: string) => {
      const words = choices.split("|");
      // One step of mulberry32.
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return words[((mixed ^ (mixed >>> 14)) >>> 0) % words.length]!;
    });
  }
  return prompt;
}

/** The requests of a draft: one, or with choices one for each result, as each has words of its own. */
export function requestsOf(draft: Draft): Draft[] {
  if (!CHOICE.test(draft.prompt)) return [draft];
  const isFixed = (draft.keepsSeed || draft.usesSeed) && draft.seed !== null;
  const first = isFixed ? draft.seed! : Math.floor(Math.random() * 2 ** 32);
  return Array.from({ length: draft.count }, (_, index) => {
    const seed = first + index;
    return { ...draft, count: 1, keepsSeed: true, seed, prompt: chooseWords(draft.prompt, seed) };
  });
}
