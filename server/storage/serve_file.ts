/**
 * A file as an answer: whole or a range, with validators.
 *
 * Source: RFC 9110, sections 8.8, 13 and 14.
 */

import { ApiError } from "../contract/errors.ts";
import type { StoredFile } from "./result_storage.ts";
import { isGone } from "../../generation/write_error.ts";

/** Bytes from `start` up to and including `end`. */
interface ByteRange {
  start: number;
  end: number;
}

/**
 * Reads a `Range` header.
 *
 * @param header such as `bytes=0-1`, `bytes=100-` or `bytes=-500`
 * @param size of the file in bytes
 * @returns the range; `"unsatisfiable"` when it lies beyond the file; undefined when there is no
 * header, or one that a server may answer with the whole file (other units, several ranges, nonsense)
 */
export function parseRange(
  header: string | null | undefined,
  size: number,
): ByteRange | "unsatisfiable" | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.replace(/\s/g, "") ?? "");
  const [, first = "", last = ""] = match ?? [];
  if (!match || (first === "" && last === "")) return undefined;
  if (first === "") {
    const length = Math.min(Number(last), size);
    return length === 0 ? "unsatisfiable" : { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== "" && Number(last) < start) return undefined;
  return start >= size ? "unsatisfiable" : { start, end };
}

/**
 * Answers a GET or HEAD with a file.
 *
 * @param request its `Range`, `If-Range`, `If-None-Match`, `If-Modified-Since` and method count
 * @returns 200, 206 or 304; undefined when the file is gone
 * @throws {ApiError} 416 for a range beyond the file
 */
export async function serveFile(
  request: Request,
  path: string,
  file: StoredFile,
): Promise<Response | undefined> {
  let handle: Deno.FsFile;
  let size: number;
  let modified: Date | null;
  try {
    handle = await Deno.open(path);
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
  try {
    ({ size, mtime: modified } = await handle.stat());
  } catch (error) {
    handle.close();
    throw error;
  }
  const headers = new Headers({
    "accept-ranges": "bytes",
    "cache-control": "private, max-age=31536000, immutable",
    "content-disposition": `attachment; filename="${file.name}"`,
    "content-type": file.contentType,
    "etag": file.etag,
    "x-content-type-options": "nosniff",
    ...(modified ? { "last-modified": modified.toUTCString() } : {}),
  });
  const finish = (status: number) => {
    handle.close();
    return new Response(null, { status, headers });
  };

  if (isKnown(request.headers, file.etag, modified)) return finish(304);

  const condition = request.headers.get("if-range");
  const applies = condition === null || condition === file.etag;
  const range = applies ? parseRange(request.headers.get("range"), size) : undefined;
  if (range === "unsatisfiable") {
    handle.close();
    throw new ApiError(416, `Cannot serve this range: the file has ${size} bytes`, {
      code: "range_not_satisfiable",
      headers: { "content-range": `bytes */${size}` },
    });
  }
  const { start, end } = range ?? { start: 0, end: size - 1 };
  if (range) headers.set("content-range", `bytes ${start}-${end}/${size}`);
  headers.set("content-length", String(end - start + 1));
  const status = range ? 206 : 200;
  if (request.method === "HEAD") return finish(status);

  await handle.seek(start, Deno.SeekMode.Start);
  return new Response(firstBytes(handle.readable, end - start + 1), { status, headers });
}

/** Whether the client has this very file; its date counts only where it names no validator. */
function isKnown(headers: Headers, etag: string, modified: Date | null): boolean {
  const known = headers.get("if-none-match");
  if (known !== null) return matchesAny(known, etag);
  const since = Date.parse(headers.get("if-modified-since") ?? "");
  // A header's date has whole seconds.
  return modified !== null && Math.floor(modified.getTime() / 1000) * 1000 <= since;
}

function matchesAny(header: string, etag: string): boolean {
  if (header.trim() === "*") return true;
  return header.split(",").some((one) => one.trim().replace(/^W\//, "") === etag);
}

/** Passes on so many bytes and closes the source after them. */
function firstBytes(
  source: ReadableStream<Uint8Array<ArrayBuffer>>,
  count: number,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = source.getReader();
  let left = count;
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = left > 0
        ? await reader.read()
        : { done: true as const, value: undefined };
      if (done) {
        controller.close();
        await reader.cancel();
        return;
      }
      controller.enqueue(value.subarray(0, left));
      left -= value.length;
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
