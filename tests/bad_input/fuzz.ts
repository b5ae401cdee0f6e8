/**
 * Fuzzers: a few cases in every run of the tests, and thousands with `DENOISE_SLOW`, both of seeds that
 * are always the same and of new ones.
 */
import assert from "node:assert/strict";
import fc from "fast-check";

/** Cases, and the seed of them where it is fixed. */
interface FuzzRun {
  readonly numRuns: number;
  readonly seed?: number;
}

/** How often, how long and how much. */
interface FuzzOptions {
  /** Cases in every run of the tests. */
  readonly few: number;
  /** Cases of each slow run. */
  readonly many: number;
}

/** Always the same cases, beside those that are new with each run. */
const SEED = 19;

/** Longest time for a case, in milliseconds. */
const MAX_MS = 10_000;

/** Most memory that all cases together may leave or take, in bytes. */
const MAX_GROWTH = 1e9;

/** Registers a fuzzer's tests. */
export function fuzz(
  title: string,
  { few, many }: FuzzOptions,
  run: (run: FuzzRun) => Promise<void> | void,
): void {
  const bounded = (cases: FuzzRun) => async () => {
    const before = Deno.memoryUsage().rss;
    await run(cases);
    const growth = Deno.memoryUsage().rss - before;
    assert.ok(growth < MAX_GROWTH, `the process grew by ${Math.round(growth / 1e6)} MB`);
  };
  Deno.test(title, bounded({ numRuns: few }));
  const ignore = !Deno.env.has("DENOISE_SLOW");
  for (const [seeds, seed] of [["fixed", { seed: SEED }], ["new", {}]] as const) {
    const fn = bounded({ numRuns: many, ...seed });
    Deno.test({ name: `${title}, ${seeds} seeds (slow)`, ignore, fn });
  }
}

/** Does work on what was damaged: it succeeds, or fails with a sentence for its user, in time. */
export async function takenOrRefused(use: () => unknown): Promise<"taken" | "refused"> {
  const start = performance.now();
  let outcome: "taken" | "refused" = "taken";
  try {
    await use();
  } catch (error) {
    assert.ok(error instanceof Error, String(error));
    assert.match(error.message, /^Cannot [^\n]{5,4000}$/, error.stack);
    assert.doesNotMatch(error.message, /undefined|\[object|is not a function|call stack/);
    outcome = "refused";
  }
  const ms = performance.now() - start;
  assert.ok(ms < MAX_MS, `a case takes ${Math.round(ms)} ms`);
  return outcome;
}

/** Numbers at the limits of their types. */
const NUMBERS = [0n, 1n, 2n ** 31n - 1n, 2n ** 32n - 1n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];

/** A change of bytes; `at` counts from the start, mostly near it. */
const byteChange = fc.record({
  at: fc.oneof({ weight: 3, arbitrary: fc.nat(4096) }, fc.nat(2 ** 24)),
  kind: fc.constantFrom("set", "number", "remove", "insert", "copy", "end"),
  value: fc.nat(255),
  length: fc.nat(64),
  number: fc.constantFrom(...NUMBERS),
});

/** What damages a file: a few changes of its bytes. */
export const byteDamage: fc.Arbitrary<(bytes: Uint8Array) => Uint8Array> = fc
  .array(byteChange, { minLength: 1, maxLength: 4 })
  .map((changes) => (bytes) => changes.reduce(changed, bytes));

function changed(
  bytes: Uint8Array,
  change: typeof byteChange extends fc.Arbitrary<infer T> ? T : never,
) {
  const at = change.at % (bytes.length + 1);
  const spliced = (removed: number, put: Uint8Array) => {
    const result = new Uint8Array(bytes.length - Math.min(removed, bytes.length - at) + put.length);
    result.set(bytes.subarray(0, at));
    result.set(put, at);
    result.set(bytes.subarray(at + removed), at + put.length);
    return result;
  };
  const number = () => new Uint8Array(BigUint64Array.of(change.number).buffer);
  switch (change.kind) {
    case "set":
      return spliced(1, Uint8Array.of(change.value));
    case "number":
      return spliced(8, number().subarray(0, change.length % 2 ? 8 : 4));
    case "remove":
      return spliced(change.length, new Uint8Array(0));
    case "insert":
      return spliced(0, new Uint8Array(change.length).fill(change.value));
    case "copy":
      return spliced(0, bytes.subarray(change.value, change.value + change.length));
    default:
      return bytes.subarray(0, at);
  }
}

/** Values that are nearly right somewhere. */
const VALUES = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom<unknown>(
    ...[null, true, false, -1, 0, 1, 2, 3, 1.5, 1e9, 2 ** 31, 2 ** 53, 1e300, "", "1", [], {}, [
      [],
    ]],
    ...[
      "__proto__",
      "constructor",
      "../..",
      "\u0000",
      "(a+)+$",
      "WanPipeline",
      "F32",
      "x".repeat(5000),
    ],
    Array(10_000).fill(1),
    JSON.parse(`${"[".repeat(2000)}${"]".repeat(2000)}`),
  ),
);

const jsonChange = fc.record({
  path: fc.array(fc.nat(5000), { minLength: 1, maxLength: 7 }),
  kind: fc.constantFrom("put", "put", "remove", "rename", "move"),
  value: VALUES,
  name: fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "toString", "weight")),
});

/** What damages a JSON text: a few of its values, or its characters. */
export const jsonDamage: fc.Arbitrary<(text: string) => string> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.array(jsonChange, { minLength: 1, maxLength: 3 }).map(
      (changes) => (text: string) => JSON.stringify(changes.reduce(jsonChanged, JSON.parse(text))),
    ),
  },
  byteDamage.map((damage) => (text: string) =>
    new TextDecoder().decode(damage(new TextEncoder().encode(text)))
  ),
);

function jsonChanged(
  json: unknown,
  change: typeof jsonChange extends fc.Arbitrary<infer T> ? T : never,
): unknown {
  const [step, ...rest] = change.path;
  if (step === undefined || typeof json !== "object" || json === null) return change.value;
  const keys = Object.keys(json);
  const key = keys[step % Math.max(1, keys.length)];
  if (key === undefined) return change.value;
  const old = (json as Record<string, unknown>)[key];
  const isLeaf = typeof old !== "object" || old === null || rest.length === 0;
  const entries = Object.entries(json);
  const put = (name: string, value: unknown) =>
    Array.isArray(json)
      ? entries.map(([each, old]) => each === key ? value : old)
      : Object.fromEntries(entries.map((entry) => entry[0] === key ? [name, value] : entry));
  if (!isLeaf) return put(key, jsonChanged(old, { ...change, path: rest }));
  if (change.kind === "remove") {
    const left = entries.filter(([each]) => each !== key);
    return Array.isArray(json) ? left.map(([, value]) => value) : Object.fromEntries(left);
  }
  if (change.kind === "rename") return put(change.name, old);
  if (change.kind === "move") return put(key, entries[(step + 1) % entries.length]![1]);
  return put(key, change.value);
}
