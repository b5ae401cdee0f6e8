/** The tokenizer of every CLIP and OpenCLIP text encoder, for files that hold none. Source: openai/CLIP `SimpleTokenizer`. */
import { byteAlphabet } from "./byte_level.ts";
import { clipMerges } from "./clip/merges.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { readVocabularyAndMerges } from "./vocabulary_and_merges.ts";

const [BOS, EOS] = ["<|startoftext|>", "<|endoftext|>"];
/** Ends words. */
const SUFFIX = "</w>";

/** What fills texts up: the end token for OpenAI's towers, the id 0 for OpenCLIP's. */
export async function clipTokenizer(padding: "end" | "zero"): Promise<Tokenizer> {
  const merges = await clipMerges();
  const alphabet = byteAlphabet();
  const pairs = merges.trimEnd().split("\n");
  const pieces = [
    ...alphabet,
    ...alphabet.map((letter) => letter + SUFFIX),
    ...pairs.map((pair) => pair.replace(" ", "")),
    BOS,
    EOS,
  ];
  const vocabulary = Object.fromEntries(pieces.map((piece, id) => [piece, id]));
  const special = (content: string) => ({
    content,
    id: vocabulary[content]!,
    ...{ singleWord: false, lstrip: false, rstrip: false, special: true },
  });
  return readVocabularyAndMerges(vocabulary, merges, "clip/merges.txt", {
    className: "CLIPTokenizer",
    bos: BOS,
    eos: EOS,
    pad: padding === "end" ? EOS : pieces[0]!,
    addedTokens: [{ ...special(BOS), normalized: true }, { ...special(EOS), normalized: false }],
  });
}
