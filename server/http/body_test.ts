import { strict as assert } from "node:assert";
import { BodyMemory } from "./body.ts";

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
