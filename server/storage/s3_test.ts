import { strict as assert } from "node:assert";
import { FakeS3, type FakeS3Options } from "../../tests/fakes/s3.ts";
import { LocalStorage } from "./local.ts";
import { S3Storage, type S3StorageOptions } from "./s3.ts";
import type { S3Settings } from "./s3_settings.ts";

const STORE: FakeS3Options = {
  bucket: "images",
  region: "eu-west-1",
  accessKeyId: "AKIDEXAMPLE",
  secretAccessKey: "a+secret/with=signs",
};
const PNG = "image/png";
const BYTES = Uint8Array.from({ length: 5000 }, (_, index) => index * 7);
const GET = new Request("http://denoise/v1/images/x/content");

interface Fixture extends AsyncDisposable {
  store: FakeS3;
  local: LocalStorage;
  storage: S3Storage;
  lines: string[];
  other(settings: Partial<S3Settings>, options?: S3StorageOptions): S3Storage;
}

async function fixture(): Promise<Fixture> {
  const folder = await Deno.makeTempDir();
  const store = new FakeS3(STORE);
  const local = new LocalStorage(folder);
  const lines: string[] = [];
  const other = (settings: Partial<S3Settings>, options?: S3StorageOptions) =>
    new S3Storage(
      { ...STORE, endpoint: store.endpoint, ...settings },
      local,
      (line) => lines.push(line),
      options,
    );
  return {
    store,
    local,
    storage: other({}),
    lines,
    other,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** A file that could not be uploaded: it is served from the disk, and the log says why. */
async function assertKeptLocally(
  { local, lines }: Fixture,
  storage: S3Storage,
  why: RegExp,
): Promise<void> {
  const file = await storage.write("a.png", BYTES, PNG);
  assert.equal(file.url, undefined);
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^Cannot upload a\.png to the bucket images: .*; it is kept on this/);
  assert.match(lines[0]!, why);
  assert.deepEqual(await Deno.readFile(local.path("a.png")), BYTES);
  assert.equal(storage.pathOf(file), local.path("a.png"));
  const response = await storage.content(GET, file);
  assert.equal(response?.status, 200);
  assert.deepEqual(await response.bytes(), BYTES);
  await storage.remove(file);
  await assert.rejects(Deno.stat(local.path("a.png")), Deno.errors.NotFound);
}

Deno.test("S3Storage.write() puts the file into the bucket and nothing on the disk", async () => {
  await using test = await fixture();
  const { store, storage, local, lines } = test;
  const file = await storage.write("img_1.png", BYTES, PNG);
  assert.equal(file.url, `${store.endpoint}/images/img_1.png`);
  assert.deepEqual([file.name, file.contentType, file.size], ["img_1.png", PNG, BYTES.length]);
  assert.deepEqual(store.objects.get("img_1.png"), { bytes: BYTES, contentType: PNG });
  assert.deepEqual([...Deno.readDirSync(local.root)], []);
  assert.deepEqual(lines, []);
  assert.equal(storage.pathOf(file), null);
});

Deno.test("S3Storage.content() answers with a link that works, for GET and for HEAD", async () => {
  await using test = await fixture();
  const file = await test.storage.write("img_1.png", BYTES, PNG);
  for (const method of ["GET", "HEAD"]) {
    const response = await test.storage.content(new Request(GET, { method }), file);
    assert.equal(response?.status, 307);
    const link = response.headers.get("location")!;
    const followed = await fetch(link, { method });
    assert.equal(followed.status, 200, await followed.clone().text());
    assert.equal(followed.headers.get("content-type"), PNG);
    assert.deepEqual(await followed.bytes(), method === "GET" ? BYTES : new Uint8Array());

    const forged = await fetch(link.replace("img_1", "img_2"), { method });
    assert.equal(forged.status, 403);
    await forged.body?.cancel();
    const prolonged = await fetch(link.replace("Expires=3600", "Expires=7200"), { method });
    assert.equal(prolonged.status, 403);
    await prolonged.body?.cancel();
  }
  const bare = await fetch(file.url!);
  assert.equal(bare.status, 403, "without a signature nobody gets the file");
  await bare.body?.cancel();
});

Deno.test("S3Storage.remove() removes from the bucket, and what is gone is no error", async () => {
  await using test = await fixture();
  const file = await test.storage.write("img_1.png", BYTES, PNG);
  await test.storage.remove(file);
  await test.storage.remove(file);
  assert.equal(test.store.objects.size, 0);
});

Deno.test("S3Storage.content() sends clients on to a bucket that an earlier server used", async () => {
  await using test = await fixture();
  const url = "https://elsewhere.example/bucket/img_1.png";
  const file = { name: "img_1.png", contentType: PNG, size: 1, etag: '"a"', url };
  const answers = [test.storage.content(GET, file), test.local.content(GET, file)];
  for (const response of await Promise.all(answers)) {
    assert.equal(response?.status, 307);
    assert.equal(response.headers.get("location"), url);
  }
});

Deno.test("S3Storage.writeFrom() uploads what is made, and nothing where making fails", async () => {
  await using test = await fixture();
  const make = (path: string) => Deno.writeFile(path, BYTES);
  const file = await test.storage.writeFrom("v.mp4", "video/mp4", make);
  assert.equal(test.store.objects.get(file.name)?.contentType, "video/mp4");
  const failure = new Error("no");
  await assert.rejects(
    test.storage.writeFrom("w.mp4", "video/mp4", () => Promise.reject(failure)),
    failure,
  );
  assert.deepEqual([...test.store.objects.keys()], ["v.mp4"]);
});

Deno.test("S3Storage keeps a file on the disk when the key is wrong", async () => {
  await using test = await fixture();
  const wrong = test.other({ secretAccessKey: "wrong" });
  await assertKeptLocally(test, wrong, /the store answered 403 SignatureDoesNotMatch/);
  assert.deepEqual(test.store.seen, ["PUT 403"], "a refusal is not tried again");
});

Deno.test("S3Storage keeps a file on the disk when the bucket is of another region", async () => {
  await using test = await fixture();
  await assertKeptLocally(test, test.other({ region: "us-east-1" }), /403 Authorization/);
});

Deno.test("S3Storage tries again after a 500, and keeps the file on the disk after three", async () => {
  await using test = await fixture();
  let count = 0;
  test.store.trouble = () => count++ === 0 ? { status: 500 } : undefined;
  assert.ok((await test.storage.write("b.png", BYTES, PNG)).url);
  assert.deepEqual(test.store.seen, ["PUT 500", "PUT 200"]);
  test.store.trouble = () => ({ status: 503 });
  await assertKeptLocally(test, test.storage, /the store answered 503 InternalError/);
});

Deno.test("S3Storage keeps a file on the disk when the store is too slow", async () => {
  await using test = await fixture();
  test.store.trouble = () => ({ delayMs: 400 });
  await assertKeptLocally(test, test.other({}, { attemptMs: 20 }), /took longer than 40 ms/);
});

Deno.test("S3Storage keeps a file on the disk when the connection is cut", async () => {
  await using test = await fixture();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let cuts = 0;
  const cutting = (async () => {
    for await (const connection of listener) {
      await connection.read(new Uint8Array(600));
      connection.close();
      cuts++;
    }
  })();
  const endpoint = `http://127.0.0.1:${listener.addr.port}`;
  await assertKeptLocally(test, test.other({ endpoint }), /the store cannot be reached/);
  assert.equal(cuts, 3);
  listener.close();
  await cutting;
});

Deno.test("S3Storage keeps a file on the disk when nobody listens", async () => {
  await using test = await fixture();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const endpoint = `http://127.0.0.1:${listener.addr.port}`;
  listener.close();
  await assertKeptLocally(test, test.other({ endpoint }), /the store cannot be reached/);
});
