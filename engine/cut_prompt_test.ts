import { strict as assert } from "node:assert";
import { describeCut } from "./cut_prompt.ts";

Deno.test("describeCut() says how much of a prompt is read, and what helps", () => {
  const cut = { prompt: "prompt", tokens: 645, read: 512, unread: "on a blue ground" } as const;
  const sentence =
    'The prompt has 645 tokens, and the first 512 are read; not read: "on a blue ground"';
  assert.equal(describeCut(cut, { maxSequenceLength: 512 }), sentence);
  assert.equal(
    describeCut(cut, { maxSequenceLength: 1024 }),
    `${sentence}; max_sequence_length reads up to 1024`,
  );
  assert.equal(
    describeCut({ ...cut, prompt: "negative_prompt", read: 0 }, { maxSequenceLength: 512 }),
    'The negative prompt is not read, for there is no guidance: "on a blue ground"',
  );
});
