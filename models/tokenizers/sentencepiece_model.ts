/** Reading of SentencePiece's `.model` files, for Unigram and BPE models. */
import { AddedTokens } from "./added_tokens.ts";
import { BytePairEncoding } from "./byte_pair_encoding.ts";
import { ByteSink, characterLength, Charsmap } from "./charsmap.ts";
import type { Normalizer } from "./normalizers.ts";
import { PieceTrie } from "./piece_trie.ts";
import { specialTokenIds, type SpecialTokens } from "./special_tokens.ts";
import { PipelineTokenizer, type Tokenizer } from "./tokenizer.ts";
import { SPACE_MARK } from "./byte_pieces.ts";
import { Unigram } from "./unigram.ts";

/** `ModelProto.SentencePiece.Type`. */
const PieceType = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 };

const [UNIGRAM, BPE] = [1, 2];
const MODEL_TYPES = ["", "Unigram", "BPE", "word", "character"];

interface SentencePieceModel {
  readonly pieces: readonly string[];
  readonly scores: ArrayLike<number>;
  readonly types: readonly number[];
  readonly byteFallback: boolean;
  /** The mark of a space stands after its word. */
  readonly whitespaceAsSuffix: boolean;
  readonly charsmap: Uint8Array;
  readonly addDummyPrefix: boolean;
  readonly removeExtraWhitespaces: boolean;
  readonly escapeWhitespaces: boolean;
}

/** What a model file says, while it is read. Field numbers are those of `sentencepiece_model.proto`. */
type ModelFile =
  & { -readonly [Field in keyof SentencePieceModel]: SentencePieceModel[Field] }
  & { readonly pieces: string[]; readonly scores: number[]; readonly types: number[] }
  & { modelType: number };

/**
 * ChatGLM's tokens behind its vocabulary are numbered on from it, and two of them begin every text: [gMASK] and sop. It fills
 * texts up with its unknown piece. Source: diffusers `ChatGLMTokenizer`.
 */
const CHATGLM = { className: "ChatGLMTokenizer", beginning: [1, 3] };

/** A tokenizer with an end token. Tokens of the configuration are found first; SentencePiece takes them for plain text. */
export function readSentencePieceModel(
  bytes: Uint8Array,
  file: string,
  special: SpecialTokens = {},
): Tokenizer {
  const model = parseSentencePieceModel(bytes, file);
  if (model.modelType === BPE) return bytePairTokenizer(model, file, special);
  if (model.modelType === UNIGRAM) return sentencePieceTokenizer(model, file, special);
  const name = MODEL_TYPES[model.modelType] ?? `type ${model.modelType}`;
  throw new TypeError(
    `Cannot read ${file}: its model "${name}" is not supported; supported are Unigram and BPE`,
  );
}

/** BPE whose merges are all ways to make a piece of two, those of high scores first; texts begin with a token, as Gemma's and Llama's. */
export function bytePairTokenizer(
  model: SentencePieceModel,
  file: string,
  special: SpecialTokens = {},
): Tokenizer {
  const { pieces, scores, types, byteFallback } = model;
  const ofType = (...wanted: number[]) =>
    pieces.flatMap((_, id) => (wanted.includes(types[id]!) ? [id] : []));
  const idsOf = (list: readonly number[]) => new Map(list.map((id) => [pieces[id]!, id]));
  const normal = ofType(PieceType.normal);
  const parts = idsOf(normal);
  const merges: [string, string][] = [];
  const ranks: number[] = [];
  normal.toSorted((a, b) => scores[b]! - scores[a]!).forEach((id, rank) => {
    const characters = [...pieces[id]!];
    for (let cut = 1; cut < characters.length; cut++) {
      const [left, right] = [characters.slice(0, cut).join(""), characters.slice(cut).join("")];
      if (!parts.has(left) || !parts.has(right)) continue;
      merges.push([left, right]);
      ranks.push(rank);
    }
  });
  const unkId = types.indexOf(PieceType.unknown);
  if (unkId === -1) throw new TypeError(`Cannot read ${file}: it has no unknown piece`);
  const encoding = new BytePairEncoding({
    ids: idsOf([...normal, ...ofType(PieceType.byte)]),
    ...{ merges, ranks, keepsWholePieces: false, byteFallback },
    unknown: { id: unkId, isFused: true },
  });
  const userDefined = ofType(PieceType.userDefined);
  const symbols = new PieceTrie(userDefined.map((id) => [pieces[id]!, id]));
  const controls = idsOf(ofType(PieceType.control));
  const named = (said: string | undefined, ...usual: string[]) =>
    said ?? usual.find((name) => controls.has(name));
  const eos = named(special.eos, "<eos>", "</s>");
  const isChatGlm = special.className === CHATGLM.className;
  const pad = isChatGlm ? pieces[unkId] : named(special.pad, "<pad>") ?? eos;
  const bos = named(special.bos, "<bos>", "<s>");
  const bosId = bos === undefined ? undefined : pieces.indexOf(bos);
  const tokens = special.addedTokens ?? [];
  const ids = specialTokenIds(file, { ...eos && { eos }, ...pad && { pad } }, pieces, tokens);
  return new PipelineTokenizer({
    addedTokens: new AddedTokens(tokens, sentencePieceNormalizer(model, new Set(userDefined))),
    preTokenizer: (piece) => [piece],
    model: {
      encode: (text) => encodeAround(text, symbols, (part) => encoding.encode(part)),
      bytesOf: (piece) => encoding.bytesOf(piece),
    },
    template: isChatGlm
      ? [CHATGLM.beginning.map((place) => pieces.length + place), "text"]
      : bosId === undefined || bosId < 0
      ? ["text"]
      : [[bosId], "text"],
    // What frames a text is no part of it.
    pieces: pieces.map((piece, id) => types[id] === PieceType.control ? "" : piece)
      .with(unkId, " \u2047 "),
    ...ids,
  });
}

/** Symbols as they are, and what `encode` makes of the text between. */
function encodeAround(
  text: string,
  symbols: PieceTrie,
  encode: (part: string) => number[],
): number[] {
  const ids: number[] = [];
  let from = 0;
  for (let at = 0; at < text.length;) {
    const symbol = symbols.longestAt(text, at);
    if (symbol === undefined) {
      at++;
      continue;
    }
    ids.push(...encode(text.slice(from, at)), symbol.value);
    at = from = symbol.end;
  }
  return [...ids, ...encode(text.slice(from))];
}

export function sentencePieceTokenizer(
  model: SentencePieceModel,
  file: string,
  special: SpecialTokens = {},
): Tokenizer {
  const { pieces, scores, types, byteFallback } = model;
  const unkId = types.indexOf(PieceType.unknown);
  if (unkId === -1) throw new TypeError(`Cannot read ${file}: it has no unknown piece`);
  const userDefined = new Set(
    types.flatMap((type, id) => type === PieceType.userDefined ? [id] : []),
  );
  const tokens = special.addedTokens ?? [];
  const ids = specialTokenIds(file, special, pieces, tokens);
  return new PipelineTokenizer({
    addedTokens: new AddedTokens(tokens, sentencePieceNormalizer(model, userDefined)),
    preTokenizer: (piece) => [piece],
    model: new Unigram({
      pieces,
      scores,
      unkId,
      byteFallback,
      searchable: (id) => types[id] === PieceType.normal || types[id] === PieceType.userDefined,
      userDefined,
      precision: "float32",
    }),
    template: ["text", [ids.eosId]],
    // As SentencePiece shows it.
    pieces: pieces.with(unkId, " \u2047 "),
    ...ids,
  });
}

function sentencePieceNormalizer(
  model: SentencePieceModel,
  userDefined: ReadonlySet<number>,
): Normalizer {
  const charsmap = model.charsmap.length === 0 ? undefined : new Charsmap(model.charsmap);
  const symbols = new PieceTrie([...userDefined].map((id) => [model.pieces[id]!, id]));
  return (text) => {
    const rewritten = rewrite(text, charsmap, userDefined.size === 0 ? undefined : symbols);
    const spaced = model.removeExtraWhitespaces
      ? rewritten.replace(/ +/g, " ").replace(/^ /, "")
      : rewritten;
    // Text of nothing but spaces is empty; text of removed characters still gets its mark.
    const blank = model.removeExtraWhitespaces && [...text].length === rewritten.length;
    if (spaced === "" && (text === "" || blank)) return "";
    const mark = model.escapeWhitespaces ? SPACE_MARK : " ";
    let out = spaced.replaceAll(" ", mark);
    if (model.addDummyPrefix && !model.whitespaceAsSuffix) out = mark + out;
    // Marks that the text itself ends with go as well, as in SentencePiece.
    if (model.removeExtraWhitespaces) {
      let end = out.length;
      while (end > 0 && out[end - 1] === mark) end--;
      out = out.slice(0, end);
    }
    return model.addDummyPrefix && model.whitespaceAsSuffix ? out + mark : out;
  };
}

function rewrite(
  text: string,
  charsmap: Charsmap | undefined,
  symbols: PieceTrie | undefined,
): string {
  if (charsmap === undefined) return text;
  if (symbols === undefined) return charsmap.normalize(text);
  const encoder = new TextEncoder();
  const bytes = encoder.encode(text);
  const out = new ByteSink(bytes.length);
  let at = 0;
  let unit = 0;
  while (at < bytes.length) {
    const symbol = symbols.longestAt(text, unit);
    const match = symbol === undefined ? charsmap.match(bytes, at) : undefined;
    let end: number;
    if (symbol !== undefined) {
      end = at + encoder.encode(text.slice(unit, symbol.end)).length;
    } else {
      end = at + (match?.length ?? characterLength(bytes[at]!));
    }
    out.append(match?.replacement ?? bytes.subarray(at, end));
    while (at < end) {
      const length = characterLength(bytes[at]!);
      at += length;
      unit += length === 4 ? 2 : 1;
    }
  }
  return out.toString();
}

export function parseSentencePieceModel(
  bytes: Uint8Array,
  file: string,
): SentencePieceModel & { readonly modelType: number } {
  const model: ModelFile = {
    pieces: [],
    scores: [],
    types: [],
    modelType: 1,
    byteFallback: false,
    whitespaceAsSuffix: false,
    charsmap: new Uint8Array(),
    addDummyPrefix: true,
    removeExtraWhitespaces: true,
    escapeWhitespaces: true,
  };
  const seen = new Set<number>();
  try {
    for (const { number, value } of protoFields(bytes)) {
      if (!(value instanceof Uint8Array)) continue;
      seen.add(number);
      if (number === 1) parsePiece(model, value);
      else if (number === 2) parseTrainerSpec(model, value);
      else if (number === 3) parseNormalizerSpec(model, value);
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new TypeError(`Cannot read ${file}: it is no SentencePiece model: ${error.message}`);
  }
  if (!seen.has(1) || !seen.has(2) || !seen.has(3)) {
    throw new TypeError(
      `Cannot read ${file}: it is no whole SentencePiece model: pieces or specifications are missing`,
    );
  }
  return model;
}

function decodeText(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

function parsePiece(model: ModelFile, message: Uint8Array): void {
  let piece = "";
  let score = 0;
  let type = PieceType.normal;
  for (const { number, value } of protoFields(message)) {
    if (number === 1 && value instanceof Uint8Array) piece = decodeText(value);
    else if (number === 2 && typeof value === "number") score = value;
    else if (number === 3 && typeof value === "number") type = value;
  }
  model.pieces.push(piece);
  model.scores.push(score);
  model.types.push(type);
}

function parseTrainerSpec(model: ModelFile, message: Uint8Array): void {
  for (const { number, value } of protoFields(message)) {
    if (typeof value !== "number") continue;
    if (number === 3) model.modelType = value;
    else if (number === 24) model.whitespaceAsSuffix = value !== 0;
    else if (number === 35) model.byteFallback = value !== 0;
  }
}

function parseNormalizerSpec(model: ModelFile, message: Uint8Array): void {
  for (const { number, value } of protoFields(message)) {
    if (number === 2 && value instanceof Uint8Array) model.charsmap = value;
    if (typeof value !== "number") continue;
    if (number === 3) model.addDummyPrefix = value !== 0;
    else if (number === 4) model.removeExtraWhitespaces = value !== 0;
    else if (number === 5) model.escapeWhitespaces = value !== 0;
  }
}

interface ProtoField {
  readonly number: number;
  /** A varint, a fixed 32-bit float, or bytes; fixed 64-bit fields are left undefined. */
  readonly value: number | Uint8Array | undefined;
}

export function* protoFields(bytes: Uint8Array): Generator<ProtoField> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1;; scale *= 128) {
      const byte = view.getUint8(at++);
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    switch (tag % 8) {
      case 0:
        yield { number, value: varint() };
        break;
      case 1:
        at += 8;
        yield { number, value: undefined };
        break;
      case 2: {
        const end = varint() + at;
        if (end > bytes.length) {
          throw new RangeError(`field ${number} ends at byte ${end} of ${bytes.length}`);
        }
        yield { number, value: bytes.subarray(at, end) };
        at = end;
        break;
      }
      case 5:
        yield { number, value: view.getFloat32(at, true) };
        at += 4;
        break;
      default:
        throw new RangeError(`field ${number} at byte ${at} has wire type ${tag % 8}`);
    }
  }
}
