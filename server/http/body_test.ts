import { strict as assert } from "node:assert";
import { BodyMemory, nextTurn, type Pace, readPaced, Stretch } from "./body.ts";
import { ApiError } from "../contract/errors.ts";

const KIB = 1024;

Deno.test("BodyMemory refuses with 503 what is too much together, until some is released", () => {
  const memory = new BodyMemory(100 * KIB);
  const [first, second] = [memory.open("a"), memory.open("b")];
  first.grow(64 * KIB);
  assert.equal(memory.heldBytes, 0);
  first.grow(138 * KIB);
  assert.equal(memory.heldBytes, 74 * KIB);
  assert.throws(() => second.grow(91 * KIB), { name: "ApiError", status: 503 });
  assert.equal(memory.heldBytes, 74 * KIB);
  second.release();
  assert.equal(memory.heldBytes, 74 * KIB);
  first.release();
  first.release();
  assert.equal(memory.heldBytes, 0);
  memory.open("a").grow(139 * KIB);
});

Deno.test("BodyMemory keeps some for other clients", () => {
  const memory = new BodyMemory(100 * KIB);
  const [first, second] = [memory.open("a"), memory.open("a")];
  first.grow(138 * KIB);
  assert.throws(() => second.grow(66 * KIB), { name: "ApiError", status: 503 });
  memory.open("b").grow(88 * KIB);
  first.release();
  memory.open("a").grow(138 * KIB);
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A byte every few milliseconds, for ever. */
function drip(everyMs: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      await pause(everyMs);
      controller.enqueue(Uint8Array.of(1));
    },
  });
}

async function lengthOf(body: ReadableStream<Uint8Array<ArrayBuffer>>, pace: Partial<Pace>) {
  let length = 0;
  for await (const bytes of readPaced(body, pace)) length += bytes.length;
  return length;
}

/** Whether an error says in these words that the body is too slow. */
function isLate(message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.status, 408);
    assert.match(error.message, message);
    assert.equal(error.headers["connection"], "close");
    return true;
  };
}

Deno.test("readPaced() gives what comes, however long it takes within the limits", async () => {
  async function* slowly() {
    for (let byte = 0; byte < 5; byte++) {
      await pause(2);
      yield Uint8Array.of(byte);
    }
  }
  const bytes: number[] = [];
  for await (const chunk of readPaced(ReadableStream.from(slowly()))) bytes.push(...chunk);
  assert.deepEqual(bytes, [0, 1, 2, 3, 4]);
});

Deno.test("readPaced() gives up with 408 when nothing comes", async () => {
  const silent = new ReadableStream<Uint8Array<ArrayBuffer>>();
  await assert.rejects(
    lengthOf(silent, { idleMs: 5 }),
    isLate(/nothing came for 0\.005 s; send the request again$/),
  );
});

Deno.test("readPaced() gives up with 408 on a drip below the least rate", async () => {
  await assert.rejects(
    lengthOf(drip(5), { idleMs: 1000, graceMs: 30, leastRate: 1000 }),
    isLate(/it comes at less than 1000 bytes per second/),
  );
});

Deno.test("readPaced() gives up with 408 at the last deadline, whatever the rate", async () => {
  await assert.rejects(
    lengthOf(drip(1), { graceMs: 1000, leastRate: 1, deadlineMs: 30 }),
    isLate(/it took longer than 0\.03 s/),
  );
});

Deno.test("readPaced() says 499 of a sender that left", async () => {
  const left = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (controller) => controller.error(new TypeError("aborted")),
  });
  await assert.rejects(lengthOf(left, {}), { name: "ApiError", status: 499 });
});

/** Pieces that are always at hand. */
function flood(pieces: number, size: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      if (sent++ < pieces) controller.enqueue(new Uint8Array(size));
      else controller.close();
    },
  });
}

Deno.test("readPaced() lets others be answered while there are always more bytes", async () => {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const start = performance.now();
  assert.equal(await lengthOf(flood(2e4, 16), {}), 2e4 * 16);
  clearInterval(timer);
  const ms = performance.now() - start;
  assert.ok(turns > ms / 100, `${turns} turns in ${ms} ms`);
});

Deno.test("readPaced() refuses a body in very many pieces of a few bytes", async () => {
  assert.equal(await lengthOf(flood(10_000, 1), {}), 10_000);
  await assert.rejects(lengthOf(flood(11_000, 15), {}), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.status, 400);
    assert.match(error.message, /in more than 10000 pieces of less than 16 bytes; send larger/);
    return true;
  });
});

/** Work that keeps the thread busy, in milliseconds. */
function work(ms: number): void {
  for (const start = performance.now(); performance.now() - start < ms;);
}

/** How often others had their turn while something was done. */
async function turnsDuring(use: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  await use();
  clearInterval(timer);
  return turns;
}

Deno.test("nextTurn() lets one of many go on at a time", async () => {
  const waiters = () => Array.from({ length: 20 }, () => nextTurn().then(() => work(5)));
  const turns = await turnsDuring(() => Promise.all(waiters()));
  assert.ok(turns >= 15, `${turns} turns between 20 waiters`);
});

Deno.test("Stretch.pause() ends a stretch after milliseconds, whatever its pieces", async () => {
  const turns = await turnsDuring(async () => {
    const stretch = new Stretch();
    for (let piece = 0; piece < 200; piece++) {
      work(1);
      await stretch.pause();
    }
  });
  assert.ok(turns >= 8, `${turns} turns in 200 ms`);
});
