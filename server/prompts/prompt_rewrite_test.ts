import { strict as assert } from "node:assert";
import { PromptRewrite } from "./prompt_rewrite.ts";

const never = new AbortController().signal;

/** An enhancer that tells what it was asked. */
function recorder() {
  const asked: string[] = [];
  const enhance = (prompt: string, task: string) => {
    asked.push(`${task}: ${prompt}`);
    return Promise.resolve(`a fine ${prompt}`);
  };
  return { asked, enhancer: { enhance } };
}

Deno.test("PromptRewrite rewrites once, where the request wants that", async () => {
  const { asked, enhancer } = recorder();
  const request = { prompt: "a", enhancePrompt: true };
  const rewrite = new PromptRewrite(request, { enhancer, task: "video" });
  assert.deepEqual(await rewrite.prepare(never), { revisedPrompt: "a fine a" });
  assert.deepEqual(await rewrite.prepare(never), {});
  assert.equal(rewrite.request.prompt, "a fine a");
  assert.deepEqual(asked, ["video: a"]);
  const plain = new PromptRewrite({ ...request, enhancePrompt: false }, {
    enhancer,
    task: "image",
  });
  assert.deepEqual(await plain.prepare(never), {});
  assert.equal(plain.request.prompt, "a");
});

Deno.test("PromptRewrite keeps the prompt of a job that is run again", async () => {
  const { asked, enhancer } = recorder();
  const rewrite = new PromptRewrite(
    { prompt: "a", enhancePrompt: true },
    { enhancer, task: "image", revisedPrompt: "a grand a" },
  );
  assert.deepEqual(await rewrite.prepare(never), {});
  assert.equal(rewrite.request.prompt, "a grand a");
  assert.deepEqual(asked, []);
});
