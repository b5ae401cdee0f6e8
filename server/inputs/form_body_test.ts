import assert from "node:assert/strict";
import { z } from "zod";
import { formBody, readUrlencoded } from "./form_body.ts";

const SCHEMA = z.looseObject({
  prompt: z.string(),
  n: z.int().nullish(),
  seed: z.union([z.int(), z.array(z.int())]).nullish(),
  extra: z.record(z.string(), z.unknown()).nullish(),
});

Deno.test("formBody() makes lists and objects where the schema has them", () => {
  const fields = {
    prompt: "[12]",
    n: ["4", "4"],
    seed: ["1", "2"],
    extra: '{"a":1}',
    other: "7",
  };
  assert.deepEqual(formBody(fields, SCHEMA), {
    prompt: "[12]",
    n: "4",
    seed: ["1", "2"],
    extra: { a: 1 },
    other: "7",
  });
  assert.throws(() => formBody({ n: ["3", "4"] }, SCHEMA), /Cannot use 2 values of 'n'/);
  assert.deepEqual(formBody({ seed: "[1, 2]" }, SCHEMA), { seed: [1, 2] });
});

Deno.test("formBody() leaves what is no JSON, and drops what is empty", () => {
  const fields = { prompt: "", n: "", seed: "7", extra: "{", other: "" };
  assert.deepEqual(formBody(fields, SCHEMA), { prompt: "", seed: "7", extra: "{" });
});

Deno.test("formBody() leaves a text that is too long for a list as it is", () => {
  const long = `[${"{},".repeat(400_000)}{}]`;
  assert.deepEqual(formBody({ loras: long }, z.object({ loras: z.array(z.object()) })), {
    loras: long,
  });
});

Deno.test("formBody() refuses lists that hold too much together, each of them small", () => {
  const schema = z.object({ loras: z.array(z.object()) });
  const list = `[${"{},".repeat(3000)}{}]`;
  assert.equal((formBody({ loras: list }, schema)["loras"] as unknown[]).length, 3001);
  assert.throws(
    () => formBody({ loras: Array(4).fill(list) }, schema),
    /^ApiError: Cannot read field 'loras' as JSON: it has more than 10000 of the characters/,
  );
});

const MAX_FIELDS = 4;

const read = (body: BodyInit) =>
  readUrlencoded(new Request("http://host/", { method: "POST", body }), MAX_FIELDS);

Deno.test("readUrlencoded() reads fields, those that came more than once too", async () => {
  assert.deepEqual(await read("prompt=a+b%20%C3%A9&n=&x&n=%zz%2B"), {
    prompt: "a b é",
    n: ["", "%zz+"],
    x: "",
  });
  assert.deepEqual(await read(""), {});
  const fields = await read("__proto__=1&__proto__=2");
  assert.deepEqual(Object.entries(fields), [["__proto__", ["1", "2"]]]);
});

Deno.test("readUrlencoded() refuses with 413 what is too long or has too many fields", async () => {
  await assert.rejects(read("a&b&c&d&e"), { status: 413, message: /it has more than 4 fields$/ });
  const long = `prompt=${"+".repeat(2 ** 20)}`;
  await assert.rejects(read(long), { status: 413, message: /longer than 1048576 bytes$/ });
});
