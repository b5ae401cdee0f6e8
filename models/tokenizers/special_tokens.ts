/** Which tokens are special: what `tokenizer_config.json` says beside a vocabulary. */

import { excerpt } from "../../hub/json_file.ts";
import type { AddedToken } from "./added_tokens.ts";
import { isObject } from "../../hub/json_file.ts";
import { JsonReader } from "./json_fields.ts";

export interface SpecialTokens {
  readonly className?: string;
  readonly bos?: string;
  readonly eos?: string;
  readonly pad?: string;
  readonly addedTokens?: readonly AddedToken[];
}

export function readTokenizerConfig(json: unknown, file: string): SpecialTokens {
  const root = new JsonReader(file, "", json);
  const className = tokenContent(root, "tokenizer_class");
  const bos = tokenContent(root, "bos_token");
  const eos = tokenContent(root, "eos_token");
  const pad = tokenContent(root, "pad_token");
  const decoder = root.optional("added_tokens_decoder");
  const addedTokens = Object.keys(decoder?.fields ?? {}).map((id): AddedToken => {
    const token = decoder!.object(id);
    if (!/^\d+$/.test(id)) throw token.error("", "has a key that is not an id");
    return readAddedToken(token, Number(id));
  });
  return {
    ...(className !== undefined && { className }),
    ...(bos !== undefined && { bos }),
    ...(eos !== undefined && { eos }),
    ...(pad !== undefined && { pad }),
    addedTokens,
  };
}

export function readAddedToken(json: JsonReader, id: number = json.index("id")): AddedToken {
  return {
    id,
    content: json.string("content"),
    singleWord: json.boolean("single_word", false),
    lstrip: json.boolean("lstrip", false),
    rstrip: json.boolean("rstrip", false),
    normalized: json.boolean("normalized", true),
    special: json.boolean("special", false),
  };
}

function tokenContent(root: JsonReader, key: string): string | undefined {
  const value = root.fields[key];
  if (value === undefined || value === null) return undefined;
  return isObject(value) ? root.object(key).string("content") : root.string(key);
}

export function specialTokenIds(
  file: string,
  special: SpecialTokens,
  pieces: readonly string[],
  added: readonly AddedToken[],
): { eosId: number; padId: number } {
  const idOf = (content: string, name: string): number => {
    const id = added.find((token) => token.content === content)?.id ?? pieces.indexOf(content);
    if (id === -1) {
      throw new TypeError(`Cannot read ${file}: it has no ${name} token ${excerpt(content)}`);
    }
    return id;
  };
  return {
    eosId: idOf(special.eos ?? "</s>", "end"),
    padId: idOf(special.pad ?? "<pad>", "padding"),
  };
}
