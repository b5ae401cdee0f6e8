/** Our requests to stores beside those of the signer of Amazon's own SDK. */

import { strict as assert } from "node:assert";
import { createHash, createHmac } from "node:crypto";
import { SignatureV4 } from "@smithy/signature-v4";
import { LocalStorage } from "./local.ts";
import { S3Storage } from "./s3.ts";
import { bucketUrl, type S3Settings } from "./s3_settings.ts";

const AMAZON: S3Settings = {
  bucket: "images",
  region: "eu-west-1",
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "a+secret/with=signs",
};
const SETTINGS: Readonly<Record<string, S3Settings>> = {
  "Amazon's": AMAZON,
  "Amazon's, with a key that is lent": { ...AMAZON, sessionToken: "to/ken+with==signs&%" },
  "a store with a port": { ...AMAZON, endpoint: "http://127.0.0.1:9000" },
  "a store with a path": { ...AMAZON, endpoint: "https://store.example/s3 api/v1" },
};

const DIGEST = "x-amz-content-sha256";

/** The signer of Amazon's SDK. */
function reference(settings: S3Settings): SignatureV4 {
  const { accessKeyId, secretAccessKey, sessionToken, region } = settings;
  return new SignatureV4({
    service: "s3",
    region,
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) },
    // A path of S3 is taken as it is.
    uriEscapePath: false,
    sha256: class {
      readonly #hash;
      constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
        this.#hash = secret === undefined
          ? createHash("sha256")
          : createHmac("sha256", secret as Uint8Array);
      }
      update(data: Uint8Array) {
        this.#hash.update(data);
      }
      digest() {
        return Promise.resolve(new Uint8Array(this.#hash.digest()));
      }
      reset() {}
    },
  });
}

/** A request as that signer takes it. */
function toReference(method: string, url: URL, headers: Record<string, string>) {
  return {
    method,
    protocol: url.protocol,
    hostname: url.hostname,
    ...(url.port ? { port: Number(url.port) } : {}),
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: { host: url.host, ...headers },
  };
}

const toDate = (text: string) =>
  new Date(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));

for (const [name, settings] of Object.entries(SETTINGS)) {
  for (const method of ["GET", "HEAD"] as const) {
    Deno.test(`S3Storage signs ${method} links to ${name} as Amazon's SDK does`, async () => {
      const storage = new S3Storage(settings, new LocalStorage("unused"), () => {});
      for (const name of ["img_1.png", "a-b_c.0.webp"]) {
        const url = `${bucketUrl(settings)}/${name}`;
        const file = { name, contentType: "image/png", size: 1, etag: '"a"', url };
        const response = await storage.content(new Request("http://denoise/", { method }), file);
        const ours = new URL(response!.headers.get("location")!);
        const expected = await reference(settings).presign(
          toReference(method, new URL(url), { [DIGEST]: "UNSIGNED-PAYLOAD" }),
          {
            expiresIn: Number(ours.searchParams.get("X-Amz-Expires")),
            signingDate: toDate(ours.searchParams.get("X-Amz-Date")!),
            // It says what is signed of the body, and is not sent.
            unhoistableHeaders: new Set([DIGEST]),
            unsignableHeaders: new Set([DIGEST]),
          },
        );
        const { origin, pathname } = new URL(url);
        assert.equal(ours.origin + ours.pathname, origin + pathname);
        assert.deepEqual(Object.fromEntries(ours.searchParams), { ...expected.query });
        if (method === "GET") assert.equal(new URL((await storage.link(file))!).pathname, pathname);
      }
    });
  }
}

Deno.test("S3Storage signs uploads and removals as Amazon's SDK does", async () => {
  const requests: Pick<Request, "method" | "url" | "headers">[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { method, url, headers } = request;
    requests.push({ method, url, headers: new Headers(headers) });
    return new Response();
  });
  const folder = await Deno.makeTempDir();
  try {
    const endpoint = `http://127.0.0.1:${server.addr.port}`;
    for (const token of [{}, { sessionToken: "to/ken+with==signs&%" }]) {
      const settings = { ...AMAZON, ...token, endpoint };
      const storage = new S3Storage(settings, new LocalStorage(folder), () => {});
      await storage.remove(await storage.write("a.png", Uint8Array.of(1, 2), "image/png"));
      for (const { method, url, headers } of requests.splice(0)) {
        const authorization = headers.get("authorization")!;
        const [, names] = /SignedHeaders=([^,]+)/.exec(authorization) ?? [];
        const signed = Object.fromEntries(
          names!.split(";").filter((name) => name !== "host" && name !== "x-amz-date")
            .map((name) => [name, headers.get(name)!]),
        );
        const expected = await reference(settings).sign(
          toReference(method, new URL(url), signed),
          { signingDate: toDate(headers.get("x-amz-date")!) },
        );
        const words = (text: string) => text.split(/[ ,]+/);
        assert.deepEqual(words(authorization), words(expected.headers["authorization"]!), method);
      }
    }
  } finally {
    await server.shutdown();
    await Deno.remove(folder, { recursive: true });
  }
});
