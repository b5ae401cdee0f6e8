import { strict as assert } from "node:assert";
import fc from "fast-check";
import { imageFieldTable } from "../../server/contract/generation_fields.ts";
import { isErrorBody, testService } from "../fakes/service.ts";

const PATH = "/v1/images/generations";

/** Values of every kind, those near a limit and those that have broken parsers before. */
const value = fc.oneof(
  { depthSize: "small" },
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(
    null,
    true,
    "",
    " ",
    "\0",
    "\ud800",
    "1",
    "64x64",
    "1e9x1e9",
    "url",
    "b64_json",
    "png",
    "webp",
    "T2I",
    "toString",
    "__proto__",
    0,
    -0,
    -1,
    1,
    2,
    16,
    64,
    0.5,
    1e308,
    2 ** 53,
    [],
    [1, 2],
    [[]],
    {},
    { length: 1 },
  ),
);

const known = fc.constantFrom(...imageFieldTable.known, "extra_body", "extra_params");
const name = fc.oneof(
  { weight: 4, arbitrary: known },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.string(),
      fc.constantFrom("__proto__", "constructor", "output_path", "a\nb", "ü"),
    ),
  },
);

/** An object that parses from JSON as it stands, own `__proto__` included. */
const object = fc.array(fc.tuple(name, value), { maxLength: 8 }).map((entries) =>
  `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${JSON.stringify(item)}`).join(",")}}`
);
const withPrompt = object.map((text) =>
  text.replace(/^\{(.?)/, (_, next) => `{"prompt":"a"${next === "}" ? "" : ","}${next}`)
);

Deno.test("bodies that are too large together are 503 with a delay, and small ones are not", async () => {
  await using service = await testService({ settings: { maxBodyMemory: 100_000 } });
  const form = new FormData();
  form.set("prompt", "a".repeat(300_000));
  const requests = [
    service.post("/v1/images/generations", { prompt: "a".repeat(300_000) }),
    service.get("/v1/images/edits", { method: "POST", body: form }),
  ];
  for (const response of await Promise.all(requests)) {
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("retry-after"), "5");
    assert.equal((await response.json()).error.code, "too_many_bodies");
  }
  const small = await service.post("/v1/images/generations", { prompt: "a" });
  assert.equal(small.status, 200, await small.text());
});

Deno.test(`POST ${PATH} answers any body with 200 or a 4xx in both dialects`, async () => {
  await using service = await testService();
  const statuses = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(withPrompt, object, fc.string(), fc.json({ maxDepth: 3 })),
      async (body) => {
        const response = await service.post(PATH, body);
        const text = await response.text();
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        if (response.status === 200) return;
        assert.ok(response.status >= 400 && response.status < 500, `${response.status} ${text}`);
        assert.ok(isErrorBody(JSON.parse(text)), text);
      },
    ),
    { numRuns: 400 },
  );
  for (const status of [200, 400, 422]) {
    assert.ok(statuses.has(status), `the bodies reach status ${status}`);
  }
});

Deno.test(`POST ${PATH} makes exactly what it accepted`, async () => {
  await using service = await testService();
  const side = fc.integer({ min: 1, max: 8 }).map((k) => k * 16);
  const request = fc.record({
    prompt: fc.string({ minLength: 1, unit: "binary" }).filter((text) => text.trim() !== ""),
    width: side,
    height: side,
    seed: fc.maxSafeNat(),
    num_inference_steps: fc.integer({ min: 1, max: 3 }),
    guidance_scale: fc.double({ min: 0, max: 20, noNaN: true }).map((scale) => scale + 0),
    output_format: fc.constantFrom("png", "jpeg", "webp"),
  });
  await fc.assert(
    fc.asyncProperty(request, async (body) => {
      const response = await service.post(PATH, body);
      assert.equal(response.status, 200, await response.text());
      const { prompt, width, height, seed, numInferenceSteps, guidanceScale } = service.engine
        .requests.at(-1)!;
      assert.deepEqual(
        [prompt, width, height, seed, numInferenceSteps, guidanceScale],
        [
          body.prompt,
          body.width,
          body.height,
          body.seed,
          body.num_inference_steps,
          body.guidance_scale,
        ],
      );
    }),
    { numRuns: 60 },
  );
});

Deno.test(`POST ${PATH} survives bodies made to hurt`, async () => {
  await using service = await testService();
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  const bodies = [
    deep,
    `{"prompt":${deep}}`,
    `{"prompt":"a","cache_dit_params":{"a":${deep}}}`,
    `{"prompt":"a","extra_body":"{\\"extra_body\\":{\\"n\\":2}}"}`,
    `{"prompt":"a",${Array.from({ length: 20_000 }, (_, i) => `"k${i}":1`).join(",")}}`,
    `{"prompt":"a","seed":[${"1,".repeat(100_000)}1]}`,
    `{"prompt":"a","size":"${"9".repeat(100_000)}x64"}`,
    `{"prompt":"a","__proto__":{"n":"x","size":5},"constructor":1}`,
    `{"prompt":"${"ü".repeat(32_000)}","negative_prompt":"${"\\u0001".repeat(32_000)}"}`,
    `{"prompt":"${"\\ud800".repeat(32_000)}","output_format":"webp"}`,
    `{"prompt":"a\\u0000b","output_format":"png"}`,
  ];
  for (const body of bodies) {
    const response = await service.post(PATH, body);
    const text = await response.text();
    assert.ok(response.status < 500, `${body.slice(0, 60)}: ${response.status} ${text}`);
    const isShort = response.status === 200 || text.length < 10_000;
    assert.ok(isShort, `an answer of ${text.length} characters`);
  }
});
