/** ByT5's tokenizer: the bytes of a text in UTF-8, behind three special tokens. Source: transformers `ByT5Tokenizer`. */
import { type AddedToken, AddedTokens } from "./added_tokens.ts";
import { specialTokenIds, type SpecialTokens } from "./special_tokens.ts";
import { PipelineTokenizer, type Tokenizer } from "./tokenizer.ts";

export const BYTE_TOKENIZER = "ByT5Tokenizer";

const SPECIAL = ["<pad>", "</s>", "<unk>"];
const BYTES = 256;
/** Tokens that stand for parts of a text in training, where the file does not list them. */
const EXTRA_TOKENS = 125;

/** The tokenizer that a `tokenizer_config.json` describes: it has no vocabulary of its own. */
export function byteTokenizer(special: SpecialTokens, file: string): Tokenizer {
  const listed = special.addedTokens ?? [];
  const added = listed.length > 0 ? listed : usualTokens();
  const pieces = Array.from(
    { length: SPECIAL.length + BYTES },
    (_, id) => SPECIAL[id] ?? String.fromCharCode(id - SPECIAL.length),
  );
  const { eosId, padId } = specialTokenIds(file, special, pieces, added);
  return new PipelineTokenizer({
    addedTokens: new AddedTokens(added, (text) => text),
    preTokenizer: (piece) => [piece],
    model: {
      encode: (text) => Array.from(new TextEncoder().encode(text), (byte) => byte + SPECIAL.length),
      bytesOf: (piece) => [piece.charCodeAt(0)],
    },
    template: ["text", [eosId]],
    pieces,
    padId,
    eosId,
  });
}

function usualTokens(): AddedToken[] {
  const flags = { singleWord: false, normalized: false, special: true };
  const token = (content: string, id: number, strips: boolean): AddedToken => ({
    ...flags,
    content,
    id,
    lstrip: strips,
    rstrip: strips,
  });
  return [
    ...SPECIAL.map((content, id) => token(content, id, true)),
    ...Array.from(
      { length: EXTRA_TOKENS },
      (_, i) => token(`<extra_id_${i}>`, SPECIAL.length + BYTES + i, false),
    ),
  ];
}
