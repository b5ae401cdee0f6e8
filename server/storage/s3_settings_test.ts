import { strict as assert } from "node:assert";
import { bucketUrl, readS3Settings } from "./s3_settings.ts";

const KEYS = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
const REFERENCE = {
  SGLANG_CLOUD_STORAGE_TYPE: "s3",
  SGLANG_S3_BUCKET_NAME: "images",
  SGLANG_S3_ENDPOINT_URL: "https://store.example/",
  SGLANG_S3_REGION_NAME: "eu-west-1",
  SGLANG_S3_ACCESS_KEY_ID: "their-id",
  SGLANG_S3_SECRET_ACCESS_KEY: "their-secret",
};

const env = (variables: Record<string, string>) => (name: string) => variables[name];

Deno.test("readS3Settings() names no bucket where nothing is said", () => {
  assert.equal(readS3Settings({}, env({})), undefined);
  assert.equal(readS3Settings({}, env(KEYS)), undefined);
  assert.equal(readS3Settings({}, env({ SGLANG_S3_BUCKET_NAME: "images" })), undefined);
});

Deno.test("readS3Settings() reads the variables of the reference, and flags win", () => {
  assert.deepEqual(readS3Settings({}, env({ ...REFERENCE, AWS_SESSION_TOKEN: "of others" })), {
    bucket: "images",
    endpoint: "https://store.example",
    region: "eu-west-1",
    accessKeyId: "their-id",
    secretAccessKey: "their-secret",
  });
  const flags = { bucket: "others", endpoint: "http://127.0.0.1:9000", region: "here" };
  assert.deepEqual(readS3Settings(flags, env(REFERENCE)), {
    ...flags,
    accessKeyId: "their-id",
    secretAccessKey: "their-secret",
  });
});

Deno.test("readS3Settings() reads Amazon's variables for the key", () => {
  const variables = { ...KEYS, AWS_SESSION_TOKEN: "lent", AWS_REGION: "eu-north-1" };
  assert.deepEqual(readS3Settings({ bucket: "images" }, env(variables)), {
    bucket: "images",
    region: "eu-north-1",
    accessKeyId: "id",
    secretAccessKey: "secret",
    sessionToken: "lent",
  });
});

Deno.test("readS3Settings() refuses what cannot work, in one sentence", () => {
  assert.throws(
    () => readS3Settings({ bucket: "b-1" }, env({})),
    /there is no key to it; set SGLANG/,
  );
  assert.throws(() => readS3Settings({ bucket: "No/Name" }, env(KEYS)), /"No\/Name" is no name/);
  assert.throws(() => readS3Settings({ region: "here" }, env(KEYS)), /no bucket is named/);
  assert.throws(
    () => readS3Settings({}, env({ SGLANG_CLOUD_STORAGE_TYPE: "s3" })),
    /no bucket is named/,
  );
  for (const endpoint of ["store", "ftp://a", "http://a?b", "http://user@a", "http://a#b"]) {
    const flags = { bucket: "images", endpoint };
    assert.throws(() => readS3Settings(flags, env(KEYS)), /must be an http or https address/);
  }
});

Deno.test("bucketUrl() is Amazon's without an endpoint, else a folder of the endpoint", () => {
  const key = { accessKeyId: "", secretAccessKey: "" };
  const bucket = { bucket: "images", region: "eu-west-1", ...key };
  assert.equal(bucketUrl(bucket), "https://images.s3.eu-west-1.amazonaws.com");
  assert.equal(bucketUrl({ ...bucket, endpoint: "http://a:1/b" }), "http://a:1/b/images");
});
