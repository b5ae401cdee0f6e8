import assert from "node:assert/strict";
import { z } from "zod";
import { readScalars } from "./validate.ts";

const SCHEMA = z.looseObject({
  prompt: z.string(),
  n: z.int().nullish(),
  scale: z.number().nullish(),
  flag: z.boolean().nullish(),
  seed: z.union([z.int(), z.array(z.int())]).nullish(),
  seconds: z.union([z.int(), z.string()]).nullish(),
  loras: z.array(z.strictObject({ path: z.string(), strength: z.number() })).nullish(),
});

Deno.test("readScalars() reads texts and flags by the type of their field", () => {
  const body = {
    prompt: "12",
    n: " 3 ",
    scale: "1e-2",
    flag: "Yes",
    seed: ["1", 2],
    seconds: "4",
    loras: [{ path: "1", strength: "0.5" }],
    other: "7",
  };
  assert.deepEqual(readScalars(body, SCHEMA), {
    prompt: "12",
    n: 3,
    scale: 0.01,
    flag: true,
    seed: [1, 2],
    seconds: "4",
    loras: [{ path: "1", strength: 0.5 }],
    other: "7",
  });
  assert.deepEqual(readScalars({ n: true, flag: 0, seed: "7" }, SCHEMA), {
    n: 1,
    flag: false,
    seed: 7,
  });
});

Deno.test("readScalars() leaves what does not read as its type", () => {
  const bodies = [
    { prompt: true, n: "three", flag: "maybe", scale: "", seed: "1e999" },
    { n: "0x10", flag: 2, scale: null, seed: [[]], loras: "a", seconds: {} },
    [1],
    "a",
    null,
  ];
  for (const body of bodies) assert.deepEqual(readScalars(body, SCHEMA), body);
});
