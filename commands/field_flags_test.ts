import { strict as assert } from "node:assert";
import { fieldFlag, flagName } from "./field_flags.ts";

Deno.test("flagName() parts words and the number at the end", () => {
  assert.equal(flagName("numFrames"), "--num-frames");
  assert.equal(flagName("guidanceScale2"), "--guidance-scale-2");
});

Deno.test("fieldFlag() names other fields as flags, and values as they are", () => {
  const { text } = fieldFlag({
    text: "What wins over `num_frames` and `size`, `cover` or not",
    kind: "text",
  });
  assert.equal(text, "what wins over --num-frames and --size, cover or not");
});
