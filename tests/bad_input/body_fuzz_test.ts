/** Damaged forms and JSON bodies: each is answered at once, with what was in it or with a refusal. */

import { strict as assert } from "node:assert";
import fc from "fast-check";
import { readJson } from "../../server/http/body.ts";
import { ApiError } from "../../server/contract/errors.ts";
import { InputFolder } from "../../server/inputs/input_folder.ts";
import { readForm } from "../../server/inputs/multipart.ts";

/** Bodies of the gate, and of the whole run. */
const FEW = 300;
const MANY = 10_000;
const isSlow = Deno.env.has("DENOISE_SLOW");
/** Longest time for an answer, in milliseconds. */
const MAX_MS = 1000;

const LIMITS = { maxFileBytes: 60_000, maxFiles: 3, maxFieldBytes: 2000, maxBytes: 300_000 };

const encoder = new TextEncoder();

/** What means something to a parser of forms. */
const FORM_WORDS = [
  ...["\r\n", "--b", "--b--", "--", "\r\n--b\r\n", "\r\n--b--\r\n", "\r\n\r\n", "\r", "\n", "-"],
  ...["content-disposition: form-data; name=q\r\n\r\n", 'filename="', "filename*=utf-8''%ff"],
  ...["content-type: application/octet-stream\r\n", "content-type: text/plain; charset=x\r\n"],
  ...[":", ";", '"', "\0", "\ufffd", "x".repeat(20_000)],
];
const JSON_WORDS = [
  ...["{", "}", "[", "]", ",", ":", '"', "\\", "\\u", "\\ud800", "null", "1e999", "-", "\0"],
  ...["[".repeat(5000), '{"a":'.repeat(5000), "9".repeat(5000), '"__proto__":', "\ufeff"],
];

const part = fc.oneof(
  fc.string({ maxLength: 40 }).map((text) =>
    `--b\r\ncontent-disposition: form-data; name="prompt"\r\n\r\n${text}\r\n`
  ),
  fc.integer({ min: 0, max: 70_000 }).map((size) =>
    `--b\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n` +
    `content-type: image/png\r\n\r\n${"x".repeat(size)}\r\n`
  ),
);
const form = fc.array(part, { maxLength: 4 }).map((parts) => `${parts.join("")}--b--\r\n`);

/** Places of a text where something is cut out, and a word put in. */
function mutated(text: fc.Arbitrary<string>, words: readonly string[]): fc.Arbitrary<string> {
  const change = fc.record({
    at: fc.nat(),
    cut: fc.oneof(fc.constant(0), fc.nat(40)),
    word: fc.oneof(fc.constantFrom("", ...words), fc.string({ maxLength: 4 })),
  });
  return fc.tuple(text, fc.array(change, { maxLength: 4 })).map(([whole, changes]) =>
    changes.reduce((text, { at, cut, word }) => {
      const start = at % (text.length + 1);
      return text.slice(0, start) + word + text.slice(start + cut);
    }, whole)
  );
}

/** How a body comes: in pieces, and perhaps without an end. */
const arrival = fc.record({
  pieces: fc.array(fc.integer({ min: 1, max: 40_000 }), { maxLength: 8 }),
  ends: fc.boolean(),
});

function stream(
  text: string,
  { pieces, ends }: { pieces: readonly number[]; ends: boolean },
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytes = encoder.encode(text);
  const sizes = [...pieces];
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return ends ? controller.close() : new Promise(() => {});
      const size = sizes.shift() ?? bytes.length;
      controller.enqueue(bytes.slice(at, at += size));
    },
  });
}

/** Fails unless work ends in time, in a value or in a refusal that is the client's fault. */
async function answered(work: Promise<unknown>): Promise<"taken" | number> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no answer in ${MAX_MS} ms`)), MAX_MS);
  try {
    await Promise.race([work, late.promise]);
    return "taken";
  } catch (error) {
    if (!(error instanceof ApiError && error.status < 500)) throw error;
    return error.status;
  } finally {
    clearTimeout(timer);
  }
}

/** Always the same bodies, beside those that are new with each run. */
const SEED = 19;

const forms = (count: number, seed?: number) => async () => {
  const root = await Deno.makeTempDir();
  const seen = new Map<unknown, number>();
  try {
    await fc.assert(
      fc.asyncProperty(mutated(form, FORM_WORDS), arrival, async (text, arriving) => {
        // A form that does not close may wait for its end.
        const ends = arriving.ends || !`\r\n${text}`.includes("\r\n--b--");
        const request = new Request("http://host/", {
          method: "POST",
          headers: { "content-type": "multipart/form-data; boundary=b" },
          body: stream(text, { ...arriving, ends }),
        });
        const folder = new InputFolder(root);
        const outcome = await answered(readForm(request, folder, LIMITS));
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
        await folder.remove();
      }),
      { numRuns: count, ...(seed === undefined ? {} : { seed }) },
    );
  } finally {
    await Deno.remove(root, { recursive: true });
  }
  for (const outcome of ["taken", 400, 413]) assert.ok(seen.has(outcome), `some are ${outcome}`);
};

const json = (count: number, seed?: number) => async () => {
  const text = fc.oneof(
    fc.json({ maxDepth: 3 }),
    fc.dictionary(fc.constantFrom("prompt", "n", "size", "loras"), fc.jsonValue())
      .map((body) => JSON.stringify(body)),
  );
  const seen = new Map<unknown, number>();
  await fc.assert(
    fc.asyncProperty(mutated(text, JSON_WORDS), arrival, async (text, { pieces }) => {
      const request = new Request("http://host/", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: stream(text, { pieces, ends: true }),
      });
      const outcome = await answered(readJson(request, { maxBytes: 20_000 }));
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
    }),
    { numRuns: count, ...(seed === undefined ? {} : { seed }) },
  );
  for (const outcome of ["taken", 400]) assert.ok(seen.has(outcome), `some are ${outcome}`);
};

Deno.test("readForm() answers every damaged form within a second", forms(FEW));
Deno.test("readJson() answers every damaged body within a second", json(FEW));
for (const [what, run] of [["damaged form", forms], ["damaged JSON body", json]] as const) {
  for (const [seeds, seed] of [["new", undefined], ["fixed", SEED]] as const) {
    Deno.test({
      name: `each ${what} of ${MANY} is answered, seeds ${seeds}; with DENOISE_SLOW`,
      ignore: !isSlow,
      fn: run(MANY, seed),
    });
  }
}
