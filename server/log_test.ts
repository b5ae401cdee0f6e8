import { strict as assert } from "node:assert";
import { testService } from "../tests/fakes/service.ts";
import { createLog } from "./log.ts";

/** A line break, codes for a terminal in both forms, and an override of the direction of writing. */
const HOSTILE = "\n\r\x1b[31m\x9b31m\u202e\u2028\x07\0\x7f";
// deno-lint-ignore no-control-regex
const CONTROLS = /[\0-\x1f\x7f-\x9f\u2028-\u202e]/;

for (const format of ["text", "json"] as const) {
  Deno.test(`createLog() as ${format} writes control characters as escapes`, () => {
    const lines: string[] = [];
    createLog(format, (line) => lines.push(line))(`a${HOSTILE}b`, { path: `/${HOSTILE}` });
    assert.equal(lines.length, 1);
    assert.doesNotMatch(lines[0]!, CONTROLS);
    assert.match(lines[0]!, /a\\n|a\\u000a/);
  });
}

Deno.test("createLog() as text writes where an error came from, and not its message once more", () => {
  const lines: string[] = [];
  const stack = "Error: x\nListening on http://evil\n    at f (a.ts:1)\n    at \x1b[31mg\n";
  createLog("text", (line) => lines.push(line))("It failed", { stack });
  assert.deepEqual(lines, ["It failed", "    at f (a.ts:1)", "    at \\u001b[31mg"]);
});

Deno.test("a path of a request writes no line of its own into the log", async () => {
  const lines: string[] = [];
  await using service = await testService({ log: createLog("text", (line) => lines.push(line)) });
  const path = "/x%0aListening%20on%20http://evil%1b%5b31m";
  await (await service.get(path)).body?.cancel();
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^GET \/x\\u000aListening on http:\/\/evil\\u001b\[31m 404 /);
});
