/** Reading of `tokenizer.json`, the format of Hugging Face's `tokenizers`, for Unigram and BPE models. */

import { type AddedToken, AddedTokens } from "./added_tokens.ts";
import { BytePairEncoding, readBytePairEncoding } from "./byte_pair_encoding.ts";
import { JsonReader } from "./json_fields.ts";
import { readNormalizer } from "./normalizers.ts";
import { readPreTokenizer } from "./pre_tokenizers.ts";
import { readAddedToken, specialTokenIds, type SpecialTokens } from "./special_tokens.ts";
import {
  type PieceModel,
  PipelineTokenizer,
  type TemplatePart,
  type Tokenizer,
} from "./tokenizer.ts";
import { Unigram } from "./unigram.ts";

const BYTE_PAIR_TOKENS: SpecialTokens = { eos: "<|endoftext|>", pad: "<|endoftext|>" };

/** Makes a tokenizer of a parsed `tokenizer.json`, but for `truncation` and `padding`: the caller chooses lengths. */
export function readTokenizerJson(
  json: unknown,
  file: string,
  special: SpecialTokens = {},
): Tokenizer {
  const root = new JsonReader(file, "", json);
  const { model, pieces } = readModel(root.object("model"));
  const declared = root.objects("added_tokens").map((token) => readAddedToken(token));
  const known = new Set(declared.map(({ content }) => content));
  declared.push(...(special.addedTokens ?? []).filter(({ content }) => !known.has(content)));
  // A token that the model has as a piece takes the piece's id, whatever the file says.
  // Ids that no piece has are holes, over which forEach goes.
  const pieceIds = new Map<string, number>();
  pieces.forEach((piece, id) => pieceIds.set(piece, id));
  const tokens = declared.map((token) => ({
    ...token,
    id: pieceIds.get(token.content) ?? token.id,
  }));
  const named = model instanceof BytePairEncoding ? { ...BYTE_PAIR_TOKENS, ...special } : special;
  const ids = specialTokenIds(file, named, pieces, tokens);
  return new PipelineTokenizer({
    addedTokens: readAddedTokens(tokens, root),
    preTokenizer: readPreTokenizer(root.optional("pre_tokenizer")),
    model,
    template: readTemplate(
      root.optional("post_processor"),
      tokens.reduce((count, { id }) => Math.max(count, id + 1), pieces.length),
    ),
    pieces,
    ...ids,
  });
}

function readAddedTokens(tokens: readonly AddedToken[], root: JsonReader): AddedTokens {
  const normalize = readNormalizer(root.optional("normalizer"));
  try {
    return new AddedTokens(tokens, normalize);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw root.error("normalizer", `cannot be used for an added token: ${cause.message}`);
  }
}

function readModel(json: JsonReader): { model: PieceModel; pieces: readonly string[] } {
  // The oldest files leave out the type; only BPE has merges.
  const type = json.string("type", "merges" in json.fields ? "BPE" : "Unigram");
  if (type === "BPE") return readBytePairEncoding(json);
  if (type === "Unigram") return readUnigram(json);
  throw json.unsupported("model", ["Unigram", "BPE"]);
}

function readUnigram(json: JsonReader): { model: Unigram; pieces: readonly string[] } {
  const { pieces, scores } = readVocabulary(json);
  const unkId = json.index("unk_id");
  if (unkId >= pieces.length) {
    throw json.error("unk_id", `is ${unkId}, and the vocabulary has ${pieces.length} pieces`);
  }
  const byteFallback = json.boolean("byte_fallback", false);
  return {
    model: new Unigram({ pieces, scores, unkId, byteFallback, precision: "float64" }),
    pieces,
  };
}

function readVocabulary(model: JsonReader): { pieces: string[]; scores: Float64Array } {
  const entries = model.array("vocab");
  const pieces: string[] = [];
  const scores = new Float64Array(entries.length);
  entries.forEach((entry, i) => {
    const [piece, score] = Array.isArray(entry) ? entry : [];
    if (typeof piece !== "string" || !isScore(score)) {
      throw model.error(`vocab[${i}]`, "is not a piece with its score, a number");
    }
    pieces.push(piece);
    scores[i] = score;
  });
  return { pieces, scores };
}

function isScore(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) < 1e30;
}

function readTemplate(json: JsonReader | undefined, idCount: number): TemplatePart[] {
  // ByteLevel changes only where in the text a piece lies.
  if (json === undefined || json.type === "ByteLevel") return ["text"];
  const isId = (id: unknown): id is number =>
    typeof id === "number" && Number.isSafeInteger(id) && id >= 0 && id < idCount;
  if (json.type === "RobertaProcessing") {
    // A token that stands at an end of every text is written as a pair: `["<|endoftext|>", 49407]`.
    const frame = (key: string) => {
      const [, id] = json.array(key);
      if (isId(id)) return [id];
      throw json.error(key, `is not a token with its id, below ${idCount}`);
    };
    return [frame("cls"), "text", frame("sep")];
  }
  if (json.type !== "TemplateProcessing") {
    throw json.unsupported("post-processor", [
      "TemplateProcessing",
      "RobertaProcessing",
      "ByteLevel",
    ]);
  }
  const tokens = json.object("special_tokens");
  const template = json.objects("single").map((part): TemplatePart => {
    const token = part.optional("SpecialToken");
    if (token === undefined) {
      part.object("Sequence");
      return "text";
    }
    const definition = tokens.object(token.string("id"));
    return definition.array("ids").map((id) => {
      if (isId(id)) return id;
      throw definition.error("ids", `is not a list of ids below ${idCount}`);
    });
  });
  if (template.filter((part) => part === "text").length > 1) {
    throw json.error("single", "has the text more than once, which is not supported");
  }
  return template;
}
