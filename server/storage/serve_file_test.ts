import { strict as assert } from "node:assert";
import { parseRange } from "./serve_file.ts";

Deno.test("parseRange() reads the three forms of a range and cuts them to the file", () => {
  assert.deepEqual(parseRange("bytes=0-1", 10), { start: 0, end: 1 });
  assert.deepEqual(parseRange("bytes=4-", 10), { start: 4, end: 9 });
  assert.deepEqual(parseRange("bytes=-3", 10), { start: 7, end: 9 });
  assert.deepEqual(parseRange("bytes=-30", 10), { start: 0, end: 9 });
  assert.deepEqual(parseRange("bytes=9-99", 10), { start: 9, end: 9 });
});

Deno.test("parseRange() tells a range beyond the file from one that may be ignored", () => {
  for (const header of ["bytes=10-", "bytes=10-20", "bytes=-0"]) {
    assert.equal(parseRange(header, 10), "unsatisfiable", header);
  }
  for (const header of [null, "", "bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,3-4", "lines=0-1"]) {
    assert.equal(parseRange(header, 10), undefined, String(header));
  }
  assert.equal(parseRange("bytes=0-", 0), "unsatisfiable");
});
