import { strict as assert } from "node:assert";
import { JsonTally } from "./json_tally.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("JsonTally counts over all pieces, and names what is too much", () => {
  const tally = new JsonTally();
  for (let piece = 0; piece < 10; piece++) {
    assert.equal(tally.add(bytes(",".repeat(4500) + "1")), undefined);
  }
  assert.equal(tally.add(bytes("{".repeat(5000))), undefined);
  assert.match(tally.add(bytes("["))!, /^it has more than 50000 of the characters \[\{,:$/);
});

Deno.test("JsonTally takes a long picture in base64, and refuses a text of escapes", () => {
  assert.equal(new JsonTally().add(bytes(`{"image":"${"A".repeat(1e6)}"}`)), undefined);
  assert.match(
    new JsonTally().add(bytes("\\".repeat(1_000_001)))!,
    /1000000 of the characters \\$/,
  );
});
