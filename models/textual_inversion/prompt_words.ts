/** Where a prompt names embeddings: `embedding:name`, and in AUTOMATIC1111's syntax the name alone. */
import type { SplitWords } from "../prompt_syntax/chunks.ts";
import type { TowerEmbeddings } from "./embedding_folder.ts";

/** A name ends at a space, a comma or a bracket. */
const NAMED = /embedding:([^\s,()[\]:]+)/gi;

/** A piece of text, or ids of vectors. */
type Part = ReturnType<SplitWords>[number];

/** Cuts text at the names of embeddings, and gives the ids of their vectors in their place. */
export function splitEmbeddings(embeddings: TowerEmbeddings): SplitWords {
  return (text, syntax) => {
    const parts: Part[] = [];
    let place = 0;
    for (const { 0: whole, 1: name = "", index } of text.matchAll(NAMED)) {
      // A full stop ends the sentence.
      const own = name.replace(/\.$/, "");
      parts.push(text.slice(place, index), embeddings.idsOf(own));
      place = index + whole.length - (name.length - own.length);
    }
    parts.push(text.slice(place));
    const isFull = (part: Part) => part.length > 0;
    if (syntax !== "a1111") return parts.filter(isFull);
    const names = embeddings.names.toSorted((a, b) => b.length - a.length)
      .map((name) => name.toLowerCase());
    return parts.flatMap((part) =>
      typeof part === "string" ? splitWords(part, names, embeddings) : [part]
    ).filter(isFull);
  };
}

/** Whole words that are names, the longest first. */
function splitWords(
  text: string,
  names: readonly string[],
  embeddings: TowerEmbeddings,
): Part[] {
  const parts: Part[] = [];
  let start = 0;
  for (let place = 0; place < text.length; place++) {
    if (isInWord(text[place - 1])) continue;
    const name = names.find((name) =>
      text.slice(place, place + name.length).toLowerCase() === name &&
      !isInWord(text[place + name.length]) && embeddings.has(name)
    );
    if (!name) continue;
    parts.push(text.slice(start, place), embeddings.idsOf(name));
    start = place + name.length;
    place = start - 1;
  }
  return [...parts, text.slice(start)];
}

function isInWord(letter: string | undefined): boolean {
  return letter !== undefined && /[\p{L}\p{N}_]/u.test(letter);
}
