/** The pre-tokenizers of a `tokenizer.json`, which cut text into pieces that the model segments one by one. */

import { excerpt } from "../../hub/json_file.ts";
import { toByteCharacters } from "./byte_level.ts";
import type { JsonReader } from "./json_fields.ts";
import { compilePattern, translatePattern } from "./patterns.ts";
import { checkTextLength } from "./text_limit.ts";

interface TextPiece {
  readonly text: string;
  readonly first: boolean;
}

export type PreTokenizer = (piece: TextPiece) => TextPiece[];

/** How GPT-2 cuts text, which a ByteLevel does where its `use_regex` does not say otherwise. */
const GPT2_PATTERN = String
  .raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

export function readPreTokenizer(json: JsonReader | undefined): PreTokenizer {
  return json ? json.read("pre-tokenizer", READERS) : (piece) => [piece];
}

const READERS: Readonly<Record<string, (json: JsonReader) => PreTokenizer>> = {
  Metaspace: metaspace,
  WhitespaceSplit: () => matchesOf(/\P{White_Space}+/gu),
  Split: split,
  ByteLevel: byteLevel,
  Sequence(json) {
    const parts = json.objects("pretokenizers").map(readPreTokenizer);
    return (piece) =>
      parts.reduce((pieces, part) => {
        const next = pieces.flatMap(part);
        checkTextLength(next.reduce((sum, { text }) => sum + text.length, 0));
        return next;
      }, [piece]);
  },
};

/** Turns spaces into a visible mark, puts one in front, and cuts before every mark. */
function metaspace(json: JsonReader): PreTokenizer {
  const mark = json.string("replacement");
  if ([...mark].length !== 1) throw json.error("replacement", "is not a single character");
  // Older files have `add_prefix_space` instead.
  const fallback = json.boolean("add_prefix_space", true) ? "always" : "never";
  const scheme = json.string("prepend_scheme", fallback);
  if (scheme !== "always" && scheme !== "first" && scheme !== "never") {
    throw json.error("prepend_scheme", `is ${excerpt(scheme)}, not "always", "first" or "never"`);
  }
  const split = json.boolean("split", true);
  return ({ text, first }) => {
    let marked = text.replaceAll(" ", mark);
    const prepends = scheme === "always" || scheme === "first" && first;
    if (prepends && !marked.startsWith(mark)) marked = mark + marked;
    if (!split) return [{ text: marked, first }];
    const pieces: TextPiece[] = [];
    let start = 0;
    while (start < marked.length) {
      const next = marked.indexOf(mark, start + mark.length);
      const end = next === -1 ? marked.length : next;
      pieces.push({ text: marked.slice(start, end), first: first && start === 0 });
      start = end;
    }
    return pieces;
  };
}

/**
 * Pieces are what a pattern matches and what lies between (`Isolated`), matches alone (`Removed` inverted), or what lies
 * between with the match after it (`MergedWithPrevious`).
 */
function split(json: JsonReader): PreTokenizer {
  const behavior = json.string("behavior");
  const keepsMatches = behavior === "Removed" && json.boolean("invert", false);
  const merges = behavior === "MergedWithPrevious";
  if (behavior !== "Isolated" && !merges && !keepsMatches) {
    throw json.error(
      "behavior",
      `is ${
        excerpt(behavior)
      }, which is not supported; supported are Isolated, MergedWithPrevious and Removed inverted`,
    );
  }
  const pattern = json.object("pattern");
  const text = pattern.fields["String"];
  const regex = typeof text === "string"
    ? new RegExp(RegExp.escape(text), "gu")
    : compilePattern(pattern, "Regex");
  return keepsMatches ? matchesOf(regex) : merges ? endWith(regex) : isolate(regex);
}

/** Pieces are what a pattern matches; what lies between is dropped. */
function matchesOf(regex: RegExp): PreTokenizer {
  return ({ text, first }) =>
    Array.from(text.matchAll(regex), (match) => ({
      text: match[0],
      first: first && match.index === 0,
    })).filter((piece) => piece.text !== "");
}

/** Pieces end with what a pattern matches; of several matches in a row each later one is a piece. */
function endWith(regex: RegExp): PreTokenizer {
  return ({ text, first }) => {
    const ends = Array.from(text.matchAll(regex), (match) => match.index + match[0].length);
    const starts = [0, ...ends];
    return [...ends, text.length]
      .map((end, i) => ({ text: text.slice(starts[i]!, end), first: first && i === 0 }))
      .filter((piece) => piece.text !== "");
  };
}

function isolate(regex: RegExp): PreTokenizer {
  return ({ text, first }) => {
    const pieces: TextPiece[] = [];
    let done = 0;
    const add = (end: number): void => {
      if (end > done) pieces.push({ text: text.slice(done, end), first: first && done === 0 });
      done = end;
    };
    for (const match of text.matchAll(regex)) {
      add(match.index);
      add(match.index + match[0].length);
    }
    add(text.length);
    return pieces;
  };
}

function byteLevel(json: JsonReader): PreTokenizer {
  const prefix = json.boolean("add_prefix_space", true);
  const cut = json.boolean("use_regex", true)
    ? isolate(translatePattern(GPT2_PATTERN))
    : (piece: TextPiece) => [piece];
  return (piece) => {
    const text = prefix && !piece.text.startsWith(" ") ? ` ${piece.text}` : piece.text;
    return cut({ ...piece, text }).map(({ text, first }) => ({
      text: toByteCharacters(text),
      first,
    }));
  };
}
