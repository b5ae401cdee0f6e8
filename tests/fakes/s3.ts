/**
 * A store that speaks enough of S3 for our uploads, and checks signatures as Amazon documents them
 * (Signature Version 4, in headers and in queries). Path style: `/<bucket>/<key>`.
 */

import { Buffer } from "node:buffer";
import { createHash, createHmac } from "node:crypto";

/** What the store accepts. */
export interface FakeS3Options {
  bucket: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** One object. */
interface FakeObject {
  bytes: Uint8Array<ArrayBuffer>;
  contentType: string;
}

/** How the store treats the next requests: answers with a status, or is slow; undefined for well. */
type Trouble = { status: number } | { delayMs: number } | undefined;

const MAX_SKEW_MS = 15 * 60 * 1000;

/** A store that speaks enough of S3 for our uploads. */
export class FakeS3 implements AsyncDisposable {
  readonly objects = new Map<string, FakeObject>();
  /** Method and status of every request so far. */
  readonly seen: string[] = [];
  /** Asked before each request whether it fails. */
  trouble: () => Trouble = () => undefined;
  readonly #options: FakeS3Options;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(options: FakeS3Options) {
    this.#options = options;
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      async (request) => {
        const response = await this.#answer(request);
        this.seen.push(`${request.method} ${response.status}`);
        return response;
      },
    );
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #answer(request: Request): Promise<Response> {
    const trouble = this.trouble();
    const bytes = await request.bytes();
    if (trouble && "status" in trouble) return refuse(trouble.status, "InternalError");
    if (trouble) await new Promise((resolve) => setTimeout(resolve, trouble.delayMs));
    const why = this.#reject(request, bytes);
    if (why !== undefined) return refuse(403, why);
    const { pathname } = new URL(request.url);
    const [, bucket, key = ""] = /^\/([^/]+)\/([^/]+)$/.exec(pathname) ?? [];
    if (bucket !== this.#options.bucket) return refuse(404, "NoSuchBucket");
    switch (request.method) {
      case "PUT": {
        // The real ones want to know how much will come.
        if (!request.headers.has("content-length")) return refuse(411, "MissingContentLength");
        const contentType = request.headers.get("content-type") ?? "binary/octet-stream";
        this.objects.set(key, { bytes, contentType });
        return new Response();
      }
      case "DELETE":
        this.objects.delete(key);
        return new Response(null, { status: 204 });
      case "GET":
      case "HEAD": {
        const object = this.objects.get(key);
        if (!object) return refuse(404, "NoSuchKey");
        return new Response(request.method === "GET" ? object.bytes : null, {
          headers: { "content-type": object.contentType },
        });
      }
      default:
        return refuse(405, "MethodNotAllowed");
    }
  }

  /** The code of what is wrong with a request's signature, or undefined. */
  #reject(request: Request, bytes: Uint8Array): string | undefined {
    const url = new URL(request.url);
    const query = url.searchParams;
    const header = request.headers.get("authorization");
    const isQuery = header === null && query.has("X-Amz-Signature");
    const parts = isQuery
      ? {
        credential: query.get("X-Amz-Credential"),
        signedHeaders: query.get("X-Amz-SignedHeaders"),
        signature: query.get("X-Amz-Signature"),
      }
      : /^AWS4-HMAC-SHA256 Credential=(?<credential>\S+), ?SignedHeaders=(?<signedHeaders>\S+), ?Signature=(?<signature>[0-9a-f]{64})$/
        .exec(header ?? "")?.groups;
    const { credential, signedHeaders, signature } = parts ?? {};
    if (!credential || !signedHeaders || !signature) return "AccessDenied";

    const date = (isQuery ? query.get("X-Amz-Date") : request.headers.get("x-amz-date")) ?? "";
    const [, year, month, day, hour, minute, second] =
      /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date) ?? [];
    const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
    const age = Date.now() - time;
    if (isQuery) {
      const expires = Number(query.get("X-Amz-Expires"));
      if (!(expires >= 1 && expires <= 604800)) return "AuthorizationQueryParametersError";
      if (!(age < expires * 1000 && age > -MAX_SKEW_MS)) return "AccessDenied";
    } else if (!(Math.abs(age) < MAX_SKEW_MS)) return "RequestTimeTooSkewed";

    const { accessKeyId, secretAccessKey, region } = this.#options;
    const scope = `${date.slice(0, 8)}/${region}/s3/aws4_request`;
    if (credential.split("/")[0] !== accessKeyId) return "InvalidAccessKeyId";
    if (credential !== `${accessKeyId}/${scope}`) return "AuthorizationHeaderMalformed";

    const payload = isQuery
      ? "UNSIGNED-PAYLOAD"
      : request.headers.get("x-amz-content-sha256") ?? "missing";
    const names = signedHeaders.split(";");
    if (!names.includes("host")) return "SignatureDoesNotMatch";
    const unsigned = [...request.headers.keys()].filter((name) =>
      name.startsWith("x-amz-") && !names.includes(name)
    );
    if (unsigned.length > 0) return "AccessDenied";
    const canonical = [
      request.method,
      url.pathname,
      canonicalQuery(query),
      ...names.map((name) => `${name}:${(request.headers.get(name) ?? "").trim()}`),
      "",
      signedHeaders,
      payload,
    ].join("\n");
    const text = ["AWS4-HMAC-SHA256", date, scope, sha256(canonical)].join("\n");
    const key = scope.split("/").reduce<string | Uint8Array>(hmac, `AWS4${secretAccessKey}`);
    const expected = Buffer.from(hmac(key, text)).toString("hex");
    if (expected !== signature) return "SignatureDoesNotMatch";
    if (payload !== "UNSIGNED-PAYLOAD" && payload !== sha256(bytes)) {
      return "XAmzContentSHA256Mismatch";
    }
    return undefined;
  }
}

function canonicalQuery(query: URLSearchParams): string {
  const encode = (text: string) =>
    encodeURIComponent(text).replace(
      /[!'()*]/g,
      (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  return [...query].filter(([name]) => name !== "X-Amz-Signature")
    .map(([name, value]) => `${encode(name)}=${encode(value)}`).sort().join("&");
}

function refuse(status: number, code: string): Response {
  return new Response(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`, { status });
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

function hmac(key: string | Uint8Array, text: string): Uint8Array {
  return createHmac("sha256", key).update(text).digest();
}
