import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { tokenizerGoldens } from "../../tests/support/tokenizer_goldens.ts";
import { loadTokenizer, qwen3ChatPrompt, requireQwenChat } from "./mod.ts";

const root = fileURLToPath(tokenizerGoldens());

Deno.test("qwen3ChatPrompt() gives the text and ids of transformers' apply_chat_template", async () => {
  const tokenizer = await loadTokenizer(`${root}qwen2`);
  requireQwenChat(tokenizer, "qwen2");
  const cases: readonly {
    readonly prompt: string;
    readonly hasThinkBlock: boolean;
    readonly text: string;
    readonly ids: readonly number[];
  }[] = JSON.parse(await Deno.readTextFile(`${root}qwen2/chat.json`));
  for (const { prompt, hasThinkBlock, text, ids } of cases) {
    assert.equal(qwen3ChatPrompt(prompt, { hasThinkBlock }), text);
    assert.deepEqual(tokenizer.encode(text), ids);
  }
});

Deno.test("requireQwenChat() refuses a tokenizer without the template's tokens", async () => {
  const tokenizer = await loadTokenizer(`${root}t5`);
  assert.throws(() => requireQwenChat(tokenizer, "t5"), {
    name: "SyntaxError",
    message: /Cannot use "t5": it has no token "<\|im_start\|>"/,
  });
});
