/** Results in a bucket of an S3-compatible store. */

import { createHash } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import type { Log } from "../log.ts";
import { ServiceError } from "../contract/errors.ts";
import type { LocalStorage } from "./local.ts";
import type { FilePlace, ResultStorage, StoredFile } from "./result_storage.ts";
import { bucketUrl, type S3Settings } from "./s3_settings.ts";

/** How long a link to a result works, in seconds. */
const LINK_SECONDS = 3600;
/** How often something is tried, and the pause after the first time, in milliseconds. */
const ATTEMPTS = 3;
const PAUSE_MS = 200;
/** An upload may take so long, in milliseconds, and so long for each byte. */
const UPLOAD_MS = 15_000;
const UPLOAD_MS_PER_BYTE = 1 / 256;

/** What can be set for tests. */
export interface S3StorageOptions {
  /** How long an attempt may take beside the time for its bytes, in milliseconds. */
  attemptMs?: number;
  /** Others must find every file: what cannot be uploaded is an error, and not kept on this machine. */
  isShared?: boolean;
}

/** A bucket. Files go to the disk first, and from there when the bucket has them; else they stay and are served from there. */
export class S3Storage implements ResultStorage {
  readonly #settings: S3Settings;
  readonly #local: LocalStorage;
  readonly #log: Log;
  readonly #base: string;
  readonly #attemptMs: number;
  readonly #isShared: boolean;
  readonly origin: string;
  /** Keys for signing, one for each day. */
  readonly #keys = new Map<string, ArrayBuffer>();

  constructor(
    settings: S3Settings,
    local: LocalStorage,
    log: Log,
    { attemptMs = UPLOAD_MS, isShared = false }: S3StorageOptions = {},
  ) {
    this.#settings = settings;
    this.#local = local;
    this.#log = log;
    this.#base = bucketUrl(settings);
    this.origin = new URL(this.#base).origin;
    this.#attemptMs = attemptMs;
    this.#isShared = isShared;
  }

  async write(
    name: string,
    bytes: Uint8Array<ArrayBuffer>,
    contentType: string,
  ): Promise<StoredFile> {
    return await this.#upload(await this.#local.write(name, bytes, contentType));
  }

  async writeFrom(
    name: string,
    contentType: string,
    make: (path: string) => Promise<void>,
  ): Promise<StoredFile> {
    return await this.#upload(await this.#local.writeFrom(name, contentType, make));
  }

  pathOf(file: FilePlace): string | null {
    return this.#local.pathOf(file);
  }

  /** Sends clients to a link that works for an hour; serves what could not be uploaded. */
  async content(request: Request, file: StoredFile): Promise<Response | undefined> {
    if (!this.#isOurs(file)) return await this.#local.content(request, file);
    // A signature is for one method alone.
    const location = await this.#presign(file, request.method === "HEAD" ? "HEAD" : "GET");
    return new Response(null, { status: 307, headers: { location, "cache-control": "no-store" } });
  }

  /** A link that works for an hour, whether the bucket is private or not. */
  async link(file: StoredFile): Promise<string | null> {
    return this.#isOurs(file) ? await this.#presign(file, "GET") : await this.#local.link(file);
  }

  async read(file: StoredFile): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (!this.#isOurs(file)) return await this.#local.read(file);
    try {
      const response = await fetch(await this.#presign(file, "GET"), {
        signal: AbortSignal.timeout(this.#attemptMs + file.size * UPLOAD_MS_PER_BYTE),
      });
      if (response.ok) return new Uint8Array(await response.arrayBuffer());
      await response.body?.cancel();
      if (response.status === 404) return undefined;
      throw new Error(`the store answered ${response.status}`);
    } catch (cause) {
      const message = "Cannot read the result: the store does not give its file";
      throw new ServiceError("storage_failed", message, { cause });
    }
  }

  async remove(file: FilePlace): Promise<void> {
    if (this.#isOurs(file)) await this.#send("DELETE", file.url!);
    else await this.#local.remove(file);
  }

  async removeNamed(name: string): Promise<void> {
    await this.#send("DELETE", `${this.#base}/${name}`);
    await this.#local.remove({ name });
  }

  clean(isLeft: (name: string) => Promise<boolean>): Promise<void> {
    return this.#local.clean(isLeft);
  }

  async #presign({ url }: FilePlace, method: "GET" | "HEAD"): Promise<string> {
    const link = new URL(url!);
    link.searchParams.set("X-Amz-Expires", String(LINK_SECONDS));
    return (await this.#sign({ method, url: link.href, signQuery: true })).url.href;
  }

  /** Whether a file is in this bucket: an earlier server may have used another. */
  #isOurs({ url }: FilePlace): boolean {
    return url?.startsWith(`${this.#base}/`) === true;
  }

  async #upload(file: StoredFile): Promise<StoredFile> {
    const url = `${this.#base}/${file.name}`;
    try {
      // Read at once: fetch sends a stream in chunks, which stores refuse.
      const bytes = await Deno.readFile(this.#local.path(file.name));
      await this.#send("PUT", url, bytes, { "content-type": file.contentType });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (this.#isShared) {
        await this.#local.remove(file).catch(() => {});
        const message = `Cannot keep the result in the bucket ${this.#settings.bucket}: ${why}`;
        throw new ServiceError("storage_failed", message, { cause: error });
      }
      this.#log(
        `Cannot upload ${file.name} to the bucket ${this.#settings.bucket}: ${why}; ` +
          "it is kept on this machine",
        { level: "warning" },
      );
      return file;
    }
    await this.#local.remove(file).catch(() => {});
    return { ...file, url };
  }

  async #send(
    method: "PUT" | "DELETE",
    url: string,
    body: Uint8Array<ArrayBuffer> = new Uint8Array(),
    headers: Record<string, string> = {},
  ): Promise<void> {
    // The store compares the digest with what has come.
    const digest = createHash("sha256").update(body).digest("hex");
    const limitMs = this.#attemptMs + body.length * UPLOAD_MS_PER_BYTE;
    for (let attempt = 1;; attempt++) {
      const answer = await this.#attempt(method, url, body, limitMs, {
        ...headers,
        "x-amz-content-sha256": digest,
      });
      if (answer.why === undefined) return;
      if (!answer.again || attempt === ATTEMPTS) throw new Error(answer.why);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** (attempt - 1)));
    }
  }

  async #attempt(
    method: string,
    url: string,
    body: Uint8Array<ArrayBuffer>,
    limitMs: number,
    headers: Record<string, string>,
  ): Promise<{ why?: string; again?: boolean }> {
    const signed = await this.#sign({ method, url, headers });
    try {
      const response = await fetch(signed.url, {
        method,
        headers: signed.headers,
        redirect: "manual",
        signal: AbortSignal.timeout(limitMs),
        ...(method === "PUT" ? { body } : {}),
      });
      const text = await response.text();
      const { status } = response;
      // To remove what is not there is to have removed it.
      if (response.ok || (method === "DELETE" && status === 404)) return {};
      const code = /<Code>(\w{1,80})<\/Code>/.exec(text)?.[1];
      const why = `the store answered ${status}${code ? ` ${code}` : ""}`;
      return { why, again: status >= 500 || status === 429 };
    } catch (error) {
      const isLate = error instanceof DOMException && error.name === "TimeoutError";
      const why = isLate
        ? `the store took longer than ${Math.round(limitMs)} ms`
        : `the store cannot be reached (${error instanceof Error ? error.message : error})`;
      return { why, again: true };
    }
  }

  #sign(request: {
    method: string;
    url: string;
    headers?: Record<string, string>;
    signQuery?: boolean;
  }): Promise<{ url: URL; headers: Headers }> {
    const { accessKeyId, secretAccessKey, sessionToken, region } = this.#settings;
    return new AwsV4Signer({
      ...request,
      accessKeyId,
      secretAccessKey,
      region,
      service: "s3",
      cache: this.#keys,
      ...(sessionToken === undefined ? {} : { sessionToken }),
    }).sign();
  }
}
