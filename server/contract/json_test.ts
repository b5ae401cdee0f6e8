import { strict as assert } from "node:assert";
import fc from "fast-check";
import { JsonTally } from "./json.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("JsonTally counts over all pieces, and names what is too much", () => {
  const tally = new JsonTally();
  for (let piece = 0; piece < 10; piece++) {
    assert.equal(tally.add(bytes(",".repeat(900) + "1")), undefined);
  }
  assert.equal(tally.add(bytes("{}".repeat(1000))), undefined);
  assert.match(tally.add(bytes("["))!, /^it has more than 10000 of the characters \[\{,:"$/);
});

Deno.test("JsonTally refuses what is nested too deep, in one piece or many", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const tally = new JsonTally();
  for (const depth of [64, 1, 64]) assert.equal(tally.add(bytes(nested(depth))), undefined);
  assert.equal(new JsonTally().add(bytes(`"${nested(100)}"`)), undefined);
  assert.match(new JsonTally().add(bytes(nested(65)))!, /64 lists and objects within each other/);
  for (let i = 0; i < 64; i++) assert.equal(tally.add(bytes('{"a":')), undefined);
  assert.match(tally.add(bytes("["))!, /64 lists and objects/);
});

Deno.test("JsonTally takes a long image in base64, and refuses a text of escapes", () => {
  assert.equal(new JsonTally().add(bytes(`{"image":"${"A".repeat(4e6)}"}`)), undefined);
  assert.equal(new JsonTally().add(bytes(`{"prompt":"${",:[{".repeat(1e5)}"}`)), undefined);
  assert.match(
    new JsonTally().add(bytes(`"${"\\n".repeat(1_000_001)}`))!,
    /1000000 of the characters \\$/,
  );
});

Deno.test("JsonTally refuses a number of a million digits and a million spaces", () => {
  for (const plain of ["9", " "]) {
    const text = `{"prompt":"a","seed":${plain.repeat(2 ** 20)}}`;
    assert.match(new JsonTally().add(bytes(text))!, /^it has more than 1048576 bytes outside/);
  }
});

Deno.test("JsonTally tells texts from what is around them, however they are cut", () => {
  const texts = fc.array(fc.constantFrom('"', "\\", "a", "é", ",", "\n", '\\"'), { maxLength: 12 })
    .map((parts) => JSON.stringify(parts.join("")));
  fc.assert(
    fc.property(
      fc.array(texts, { maxLength: 6 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 5 })),
      (parts, sizes) => {
        const tally = new JsonTally();
        // A sign for each text, one between two, and those that fill the count.
        const whole = bytes(parts.join(":"));
        for (let at = 0; at < whole.length;) {
          const size = sizes.next().value!;
          assert.equal(tally.add(whole.subarray(at, at += size)), undefined);
        }
        const left = 10_000 - parts.length - Math.max(0, parts.length - 1);
        assert.equal(tally.add(bytes(",".repeat(left))), undefined);
        assert.match(tally.add(bytes(","))!, /10000 of the characters/);
      },
    ),
  );
});
