import { strict as assert } from "node:assert";
import { BodyMemory } from "./body_memory.ts";

const KIB = 1024;

Deno.test("BodyMemory refuses with 503 what is too much together, until some is released", () => {
  const memory = new BodyMemory(100 * KIB);
  const [first, second] = [memory.open(), memory.open()];
  first.grow(64 * KIB);
  assert.equal(memory.heldBytes, 0);
  first.grow(144 * KIB);
  assert.equal(memory.heldBytes, 80 * KIB);
  assert.throws(() => second.grow(90 * KIB), { name: "ApiError", status: 503 });
  assert.equal(memory.heldBytes, 80 * KIB);
  second.release();
  assert.equal(memory.heldBytes, 80 * KIB);
  first.release();
  first.release();
  assert.equal(memory.heldBytes, 0);
  memory.open().grow(164 * KIB);
});
