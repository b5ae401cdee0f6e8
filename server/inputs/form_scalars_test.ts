import assert from "node:assert/strict";
import { z } from "zod";
import { readScalars } from "./form_scalars.ts";

const SCHEMA = z.looseObject({
  prompt: z.string(),
  n: z.int().nullish(),
  scale: z.number().nullish(),
  flag: z.boolean().nullish(),
  seed: z.union([z.int(), z.array(z.int())]).nullish(),
  extra: z.record(z.string(), z.unknown()).nullish(),
});

Deno.test("readScalars() reads texts by the type of their field", () => {
  const fields = {
    prompt: "12",
    n: " 3 ",
    scale: "1e-2",
    flag: "True",
    seed: ["1", "2"],
    extra: '{"a":1}',
    other: "7",
  };
  assert.deepEqual(readScalars(fields, SCHEMA), {
    prompt: "12",
    n: 3,
    scale: 0.01,
    flag: true,
    seed: [1, 2],
    extra: { a: 1 },
    other: "7",
  });
});

Deno.test("readScalars() leaves what does not read as its type, and drops what is empty", () => {
  const fields = { prompt: "", n: "three", flag: "maybe", scale: "", seed: "1e999", extra: "{" };
  assert.deepEqual(readScalars(fields, SCHEMA), {
    prompt: "",
    n: "three",
    flag: "maybe",
    seed: "1e999",
    extra: "{",
  });
});
