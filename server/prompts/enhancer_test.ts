import { strict as assert } from "node:assert";
import { ServiceError } from "../contract/errors.ts";
import { PromptRewrite, readEnhancer } from "./enhancer.ts";

const never = new AbortController().signal;

/** A language model's endpoint that answers as told, and an enhancer for it. */
async function withModel(
  answer: (body: Record<string, unknown>, request: Request) => Response | Promise<Response>,
  run: (enhance: (prompt: string, signal?: AbortSignal) => Promise<string>) => Promise<void>,
  config: Record<string, unknown> = {},
) {
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    async (request) => await answer(await request.json(), request),
  );
  try {
    const base_url = `http://127.0.0.1:${server.addr.port}/v1/`;
    const text = JSON.stringify({ base_url, model: "writer", ...config });
    const enhancer = readEnhancer(text, (name) => name === "KEY" ? "k" : undefined);
    await run((prompt, signal = never) => enhancer.enhance(prompt, "image", signal));
  } finally {
    await server.shutdown();
  }
}

const reply = (content: unknown, finish_reason: unknown = "stop") =>
  Response.json({ choices: [{ finish_reason, message: { content } }] });

Deno.test("readEnhancer() sends the wire request of the contract and trims the reply", async () => {
  let path = "", authorization: string | null = "";
  let sent: Record<string, unknown> = {};
  await withModel((body, request) => {
    sent = body;
    path = new URL(request.url).pathname;
    authorization = request.headers.get("authorization");
    return reply("  a fine circle \n");
  }, async (enhance) => {
    assert.equal(await enhance("circle"), "a fine circle");
  }, { api_key_env: "KEY", system_prompt: "Rewrite.", generation_kwargs: { temperature: 0.5 } });
  assert.equal(path, "/v1/chat/completions");
  assert.equal(authorization, "Bearer k");
  assert.deepEqual(sent, {
    max_tokens: 512,
    temperature: 0.5,
    model: "writer",
    messages: [
      { role: "system", content: "Rewrite." },
      { role: "user", content: '{"task":"image","prompt":"circle"}' },
    ],
    stream: false,
    n: 1,
  });
});

Deno.test("readEnhancer() writes a task's own prompts, with the prompt where the template has it", async () => {
  let sent: Record<string, unknown> = {};
  const tasks = {
    image: {
      ...{ system_prompt: "Draw.", user_template: "<<{prompt}>>", images_first: true },
      generation_kwargs: { top_p: 0.5 },
    },
    video: { system_prompt: "Film." },
  };
  await withModel(
    (body) => {
      sent = body;
      return reply("a circle");
    },
    async (enhance) => void await enhance("$& {prompt}"),
    { tasks, protocol: null },
  );
  assert.deepEqual(sent["messages"], [
    { role: "system", content: "Draw." },
    { role: "user", content: "<<$& {prompt}>>" },
  ]);
  assert.equal(sent["top_p"], 0.5);
});

const BAD_REPLIES: [title: string, answer: () => Response, text: string][] = [
  ["cut off", () => reply("half", "length"), "Prompt enhancer did not return a complete"],
  ["blank", () => reply("  "), "Prompt enhancer did not return a complete"],
  ["not text", () => reply(5), "Prompt enhancer did not return a complete"],
  ["longer than a prompt", () => reply("x".repeat(40_000)), "Prompt enhancer did not return"],
  [
    "endless",
    () => {
      const chunk = new TextEncoder().encode("x".repeat(65_536));
      return new Response(new ReadableStream({ pull: (stream) => stream.enqueue(chunk) }));
    },

    "Prompt enhancer did not return",
  ],
  ["not JSON", () => new Response("<html>"), "Prompt enhancer did not return a complete"],
  [
    "a refusal",
    () => new Response("secret", { status: 401 }),

    "Prompt enhancer request failed",
  ],
];

for (const [title, answer, text] of BAD_REPLIES) {
  Deno.test(`readEnhancer() refuses a reply that is ${title}`, async () => {
    await withModel(answer, async (enhance) => {
      await assert.rejects(enhance("a"), (error) => {
        assert.ok(error instanceof ServiceError);
        assert.equal(error.failure, "enhancer_failed");
        assert.ok(error.message.startsWith(text) && !error.message.includes("secret"));
        return true;
      });
    });
  });
}

Deno.test("readEnhancer() gives up on a reply that does not come in time", async () => {
  const { promise, resolve } = Promise.withResolvers<Response>();
  await withModel(() => promise, async (enhance) => {
    await assert.rejects(enhance("a"), {
      failure: "enhancer_timed_out",
      message: "Prompt enhancer timed out",
    });
    resolve(reply("late"));
  }, { timeout: 0.05 });
});

Deno.test("readEnhancer() says that a server is not there, and stops when told to", async () => {
  const enhancer = readEnhancer('{"base_url":"http://127.0.0.1:1","model":"m"}', () => undefined);
  await assert.rejects(enhancer.enhance("a", "image", never), { failure: "enhancer_failed" });
  const stopped = AbortSignal.abort(new DOMException("stop", "AbortError"));
  await assert.rejects(enhancer.enhance("a", "image", stopped), { name: "AbortError" });
});

Deno.test("readEnhancer() refuses configurations that are wrong, and says where", () => {
  const base = { base_url: "https://example.com/v1", model: "m" };
  const cases: [config: unknown, message: RegExp][] = [
    [{ ...base, base_url: "ftp://example.com" }, /base_url/],
    [{ ...base, base_url: "https://user:pw@example.com" }, /no credentials, query or fragment/],
    [{ ...base, base_url: "https://example.com/?a=1" }, /no credentials, query or fragment/],
    [{ ...base, model: "" }, /model/],
    [{ ...base, modle: "m" }, /modle/],
    [{ ...base, timeout: 0 }, /timeout/],
    [{ ...base, generation_kwargs: { n: 2 } }, /generation_kwargs may not contain n/],
    [{ ...base, api_key_env: "GONE" }, /^Prompt enhancer API key env GONE is unset$/],
    [[], /configuration: it is no JSON object$/],
    [
      { ...base, protocol: "flux3-klein-pup" },
      /protocol: no protocol is known here; say .* tasks$/,
    ],
    [
      { ...base, tasks: { audio: {} } },
      /no key audio in tasks; its keys are image, image_edit, video$/,
    ],
    [
      { ...base, tasks: { image: { user_template: "a" } } },
      /tasks.image.user_template: it must hold/,
    ],
    [{ model: "m" }, /configuration: base_url is missing$/],
    [{ base_url: "ftp://a", model: "m" }, /base_url: it must be an http or https address$/],
    [{ base_url: "http://a", model: "m", key: 1 }, /there is no key key; its keys are base_url, /],
  ];
  for (const [config, message] of cases) {
    assert.throws(
      () => readEnhancer(JSON.stringify(config), () => undefined),
      (error) => error instanceof TypeError && message.test(error.message),
      JSON.stringify(config),
    );
  }
  assert.throws(() => readEnhancer("{", () => undefined), /it is not JSON$/);
});

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
