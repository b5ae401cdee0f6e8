/** Reading a form without holding its files in memory. */

import { shorten } from "../../generation/texts.ts";
import type { Readable } from "node:stream";
import { finished } from "node:stream/promises";
// @ts-types="./busboy.d.ts"
import busboy, { type Busboy } from "busboy";
import { type BodyShare, hearOut, nextTurn, readPaced } from "../http/body.ts";
import { ApiError, badRequest, formTooLarge } from "../contract/errors.ts";
import { storageFailed } from "../storage/failures.ts";
import { ClosingBoundary, readBoundary } from "./closing_boundary.ts";
import type { InputFolder } from "./input_folder.ts";
import { readUrlencoded } from "./form_body.ts";

/** A file of a form, on disk. */
export interface UploadedFile {
  /** The field it came in. */
  readonly field: string;
  readonly path: string;
  /** Name of the file, as the client calls it. */
  readonly name: string;
  /** What the client says it is. */
  readonly contentType: string;
  /** Length in bytes. */
  readonly size: number;
}

/** What a form holds. */
export interface Form {
  /** Texts by field; all of them where a field came more than once. */
  readonly fields: Record<string, string | string[]>;
  /** Files in the order in which they came. */
  readonly files: readonly UploadedFile[];
}

/** How much a form may hold. */
export interface FormLimits {
  /** Longest file in bytes. */
  readonly maxFileBytes: number;
  /** Most files. */
  readonly maxFiles: number;
  /** Longest text in bytes, and of all of them together. */
  readonly maxFieldBytes: number;
  /** Longest form in bytes. */
  readonly maxBytes: number;
}

/** Most texts of a form: more than the API has fields. */
const MAX_FIELDS = 200;

/** Bytes from which on texts are taken in turns of their own. */
const LONG_TEXT = 2 ** 20;
/** Bytes that the parser gets at once: heads of parts take it a millisecond each. */
const MOST_AT_ONCE = 32 * 1024;
/** For how long the parser works while others wait, in milliseconds. */
const MOST_PARSED_MS = 8;
/** After how many bytes of a file it is looked whether the disk has room for more. */
const SPACE_EVERY = 8 * 2 ** 20;

/** What the parser says of a form that ends too early. */
const CUT_OFF = "Unexpected end of form";

const FORM_TYPE = /^\s*(multipart\/form-data|application\/x-www-form-urlencoded)\b/i;

/** Whether a request brings a form: `multipart/form-data`, or one without files. */
export function isForm(request: Request): boolean {
  return FORM_TYPE.test(request.headers.get("content-type") ?? "");
}

/**
 * Reads a form; its files go to disk as they come. It is over with its closing boundary, whatever
 * the length of the body is said to be.
 *
 * @param request with a form as its body
 * @param folder takes the files; the caller removes it, also when this throws
 * @param limits of the form
 * @param share takes memory for its texts
 * @returns texts and files
 * @throws {ApiError} 400 for a form that is broken or cut off, 408 for one whose sender is too slow,
 * 413 for one that is too large, 499 when its sender left, 500 when the files cannot be written, 503
 * when the bodies of all requests take too much memory
 */
export async function readForm(
  request: Request,
  folder: InputFolder,
  limits: FormLimits,
  share?: BodyShare,
): Promise<Form> {
  const contentType = request.headers.get("content-type") ?? "";
  if (!/^\s*multipart/i.test(contentType)) {
    return { fields: await readUrlencoded(request, MAX_FIELDS, share), files: [] };
  }
  const fields: Record<string, string | string[]> = Object.create(null);
  const files: Promise<UploadedFile>[] = [];
  let textLength = 0;
  let fileLength = 0;
  let refusal: ApiError | undefined;
  const refuse = (error: ApiError) => refusal ??= error;
  const { parser, closing } = openParser(contentType, limits);
  parser.on("field", (name, value, { valueTruncated }) => {
    if (name === undefined) return;
    if (value === undefined) {
      refuse(broken(`field '${shorten(name)}' has an unknown charset; send UTF-8`));
      return;
    }
    if (valueTruncated) {
      refuse(formTooLarge(`field '${shorten(name)}' is longer than ${limits.maxFieldBytes} bytes`));
    }
    // Texts are held in memory, so it is their sum that counts.
    textLength += value.length;
    if (textLength > limits.maxFieldBytes) {
      refuse(formTooLarge(`its fields are longer than ${limits.maxFieldBytes} bytes together`));
      return;
    }
    const before = fields[name];
    fields[name] = before === undefined ? value : [before, value].flat();
  });
  parser.on("file", (field = "", stream, { filename: name = "", mimeType: contentType }) => {
    // Whoever reads the stream is told too; without a listener here the process would end.
    stream.on("error", () => {});
    const keep = async (): Promise<UploadedFile> => {
      const { path, size } = await store(stream, name, folder, (bytes) => fileLength += bytes);
      if (size > limits.maxFileBytes) {
        throw refuse(formTooLarge(`a file is longer than ${limits.maxFileBytes} bytes`));
      }
      return { field, path, name, contentType, size };
    };
    // One after the other: a form of many files must not have many of them open.
    const kept = (files.at(-1) ?? Promise.resolve()).then(keep, keep);
    // What is not taken from a form keeps it from ending.
    kept.catch(() => stream.resume());
    files.push(kept);
  });
  parser.on("filesLimit", () => refuse(formTooLarge(`it has more than ${limits.maxFiles} files`)));
  parser.on("fieldsLimit", () => refuse(formTooLarge(`it has more than ${MAX_FIELDS} fields`)));
  let failure: unknown;
  try {
    await feed(parser, request.body, closing, (length) => {
      if (length > limits.maxBytes) {
        throw formTooLarge(`it is longer than ${limits.maxBytes} bytes`);
      }
      if (refusal) throw refusal;
      share?.grow(length - fileLength);
      return length - fileLength > LONG_TEXT;
    });
  } catch (error) {
    failure = error instanceof ApiError ? error : broken(error);
  }
  const kept = await Promise.allSettled(files);
  const failed = kept.find((result) => result.status === "rejected");
  if (refusal ?? failure ?? failed) throw refusal ?? failure ?? failed!.reason;
  return {
    fields: { ...fields },
    files: kept.flatMap((result) => result.status === "fulfilled" ? [result.value] : []),
  };
}

/** A parser, and where its form ends. */
function openParser(
  contentType: string,
  limits: FormLimits,
): { parser: Busboy; closing: ClosingBoundary } {
  const boundary = readBoundary(contentType);
  if (boundary === undefined) throw broken("its content type has no boundary that can be used");
  try {
    const parser = busboy({
      headers: { "content-type": `multipart/form-data; boundary="${boundary}"` },
      defParamCharset: "utf8",
      limits: {
        fields: MAX_FIELDS,
        files: limits.maxFiles,
        // What is as long as these counts as cut.
        fieldSize: limits.maxFieldBytes + 1,
        fileSize: limits.maxFileBytes + 1,
      },
    });
    return { parser, closing: new ClosingBoundary(boundary) };
  } catch (error) {
    throw broken(error);
  }
}

/** Gives a parser the form until that or the body ends; `hasLongTexts` throws to refuse so many bytes of text. */
async function feed(
  parser: Busboy,
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
  closing: ClosingBoundary,
  hasLongTexts: (length: number) => boolean,
): Promise<void> {
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  parser.on("error", failed.reject);
  const isFinished = finished(parser);
  isFinished.catch(() => {});
  const chunks = body ? readPaced(body) : undefined;
  try {
    let length = 0;
    let parsedMs = 0;
    for (let isOver = false; chunks && !isOver;) {
      const { done, value: chunk } = await chunks.next();
      if (done) break;
      // The end of a long text is where all of it is decoded.
      if (hasLongTexts(length += chunk.length)) await nextTurn();
      const end = closing.push(chunk);
      for (let at = 0; at < (end ?? chunk.length); at += MOST_AT_ONCE) {
        const piece = chunk.subarray(at, Math.min(at + MOST_AT_ONCE, end ?? chunk.length));
        const start = performance.now();
        const written = new Promise((resolve) => parser.write(piece, resolve));
        parsedMs += performance.now() - start;
        await Promise.race([written, failed.promise, isFinished]);
        if (parsedMs < MOST_PARSED_MS) continue;
        await nextTurn();
        parsedMs = 0;
      }
      isOver = end !== undefined;
    }
    // What was written last may have been refused.
    hasLongTexts(length);
    parser.end();
    await Promise.race([isFinished, failed.promise]);
  } catch (error) {
    parser.destroy();
    if (chunks) await hearOut(chunks);
    throw error;
  } finally {
    // Where a piece is still awaited, this comes after it.
    chunks?.return().catch(() => {});
  }
}

/** Writes a file of a form to disk. */
async function store(
  stream: Readable,
  name: string,
  folder: InputFolder,
  onBytes: (count: number) => void,
): Promise<{ path: string; size: number }> {
  const { path, stream: target } = await folder.open(name);
  const cut = Promise.withResolvers<never>();
  cut.promise.catch(() => {});
  if (stream.destroyed) cut.reject(stream.errored ?? new Error("the form ended in a file"));
  stream.on("error", cut.reject).once("close", () => {
    if (!stream.readableEnded) cut.reject(new Error("the form ended in a file"));
  });
  let size = 0;
  stream.on("data", ({ length }: Uint8Array) => {
    size += length;
    onBytes(length);
    if (size % SPACE_EVERY < length) folder.requireSpace().catch(cut.reject);
  });
  // Not `pipeline`, which would destroy the part of a full disk: the parser waits for its end.
  stream.pipe(target);
  const written = finished(target).catch((error) => {
    throw storageFailed(error);
  });
  try {
    await Promise.race([written, cut.promise]);
  } finally {
    target.destroy();
    await written.catch(() => {});
  }
  return { path, size };
}

function broken(why: unknown): ApiError {
  const said = why instanceof Error ? why.message.slice(0, 200) : String(why);
  const text = said === CUT_OFF ? "it ends without its closing boundary; send all of it" : said;
  return badRequest(`Cannot read the form: ${text}`, undefined, "invalid_form");
}
