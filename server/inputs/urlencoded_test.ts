import { strict as assert } from "node:assert";
import { readUrlencoded } from "./urlencoded.ts";

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
