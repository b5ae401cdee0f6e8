/**
 * Reading a form without holding its files in memory.
 *
 * @module
 */

import { Readable } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { Busboy, type BusboyHeaders, type BusboyInstance } from "@fastify/busboy";
import { shorten } from "../contract/checks.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { storageFailed } from "../storage/write_error.ts";
import { limitIdle } from "./idle.ts";
import type { InputFolder } from "./input_folder.ts";

/** A file of a form, on disk. */
export interface UploadedFile {
  /** The field it came in. */
  readonly field: string;
  /** Where it lies. */
  readonly path: string;
  /** Its name, as the client calls it. */
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
}

/** Most texts of a form: more than the API has fields. */
const MAX_FIELDS = 200;

/** Whether a request brings a form: `multipart/form-data`, or one without files. */
export function isForm(request: Request): boolean {
  const contentType = request.headers.get("content-type") ?? "";
  return /^\s*(?:multipart\/form-data|application\/x-www-form-urlencoded)\b/i.test(contentType);
}

/**
 * Reads a form; its files go to disk as they come.
 *
 * @param request with a form as its body
 * @param folder takes the files; the caller removes it, also when this throws
 * @param limits of the form
 * @returns texts and files
 * @throws {ApiError} 400 for a form that is broken or cut off, 408 for one whose sender pauses, 413
 * for one that is too large, 500 when the files cannot be written
 */
export async function readForm(
  request: Request,
  folder: InputFolder,
  limits: FormLimits,
): Promise<Form> {
  const fields: Record<string, string | string[]> = Object.create(null);
  const files: Promise<UploadedFile>[] = [];
  let textLength = 0;
  let refusal: ApiError | undefined;
  const refuse = (error: ApiError) => refusal ??= error;
  let parser: BusboyInstance;
  try {
    parser = new Busboy({
      headers: Object.fromEntries(request.headers) as BusboyHeaders,
      limits: {
        fields: MAX_FIELDS,
        fieldSize: limits.maxFieldBytes,
        files: limits.maxFiles,
        fileSize: limits.maxFileBytes,
        headerPairs: 100,
      },
    });
  } catch (error) {
    throw broken(error);
  }
  parser.on("field", (name, value, isNameCut, isValueCut) => {
    if (isNameCut || isValueCut) {
      refuse(tooLarge(`field '${shorten(name)}' is longer than ${limits.maxFieldBytes} bytes`));
    }
    // Texts are held in memory, so it is their sum that counts.
    textLength += value.length;
    if (textLength > limits.maxFieldBytes) {
      refuse(tooLarge(`its fields are longer than ${limits.maxFieldBytes} bytes together`));
      return;
    }
    const before = fields[name];
    fields[name] = before === undefined ? value : [before, value].flat();
  });
  // A form that is cut off leaves its last file without an end.
  const cut = Promise.withResolvers<never>();
  cut.promise.catch(() => {});
  parser.on("file", (field, stream, name, _encoding, contentType) => {
    stream.on("error", cut.reject);
    const keep = async (): Promise<UploadedFile> => {
      const { path, stream: target } = await folder.open(name ?? "");
      let size = 0;
      stream.on("data", (chunk) => size += chunk.length);
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
      if (stream.truncated) {
        throw refuse(tooLarge(`a file is longer than ${limits.maxFileBytes} bytes`));
      }
      return { field, path, name: name ?? "", contentType, size };
    };
    const kept = keep();
    // What is not taken from a form keeps it from ending.
    kept.catch(() => stream.resume());
    files.push(kept);
  });
  parser.on("filesLimit", () => refuse(tooLarge(`it has more than ${limits.maxFiles} files`)));
  parser.on("fieldsLimit", () => refuse(tooLarge(`it has more than ${MAX_FIELDS} fields`)));
  let failure: unknown;
  try {
    const body = limitIdle(request.body ?? new Blob().stream());
    // deno-lint-ignore no-explicit-any -- Node's type of a web stream and Deno's differ in name only
    await pipeline(Readable.fromWeb(body as any), parser);
  } catch (error) {
    failure = error instanceof ApiError ? error : broken(error);
    cut.reject(failure);
  }
  const kept = await Promise.allSettled(files);
  const failed = kept.find((result) => result.status === "rejected");
  if (refusal ?? failure ?? failed) throw refusal ?? failure ?? failed!.reason;
  return {
    fields: { ...fields },
    files: kept.flatMap((result) => result.status === "fulfilled" ? [result.value] : []),
  };
}

function broken(error: unknown): ApiError {
  const why = error instanceof Error ? error.message.slice(0, 200) : "it is malformed";
  return badRequest(`Cannot read the form: ${why}`, undefined, "invalid_form");
}

function tooLarge(why: string): ApiError {
  return new ApiError(413, `Cannot read the form: ${why}`, { code: "body_too_large" });
}
