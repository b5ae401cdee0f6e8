import { strict as assert } from "node:assert";
import { readTree } from "../tools/root.ts";
import { columns, print, tell } from "./print.ts";
import { ProgressBar } from "./progress_bar.ts";

/** Codes for a terminal in both forms, its bell, and an override of the direction of writing. */
const HOSTILE = "a\x1b]0;x\x07\x9b31m\u202eb\r";
const SEEN = "a\\u001b]0;x\\u0007\\u009b31m\\u202eb\\u000d";

Deno.test("print() and tell() show control characters of others as escapes, and keep lines", () => {
  for (const [name, say] of [["log", print], ["error", tell]] as const) {
    const before = console[name];
    let said = "";
    console[name] = (text: string) => said = text;
    try {
      say(`one\n${HOSTILE}`);
    } finally {
      console[name] = before;
    }
    assert.equal(said, `one\n${SEEN}`);
  }
});

Deno.test("columns() keeps each text in its own cell and line", () => {
  assert.equal(columns([["x", `${HOSTILE}\nfake`], ["y", "z"]]), `x  ${SEEN}\\u000afake\ny  z`);
});

Deno.test("ProgressBar shows control characters of a server as escapes", () => {
  let written = "";
  const bar = new ProgressBar({ isTerminal: true, write: (text) => written += text });
  bar.show(0.5, "Waiting", HOSTILE);
  assert.ok(written.endsWith(SEEN), written);
});

Deno.test("commands print through print() and tell() alone", () => {
  const files = [...readTree("commands", [".ts"]), ["cli.ts", Deno.readTextFileSync("cli.ts")]];
  const others = files.filter(([file, source]) =>
    !/_test\.ts$|\/print\.ts$/.test(file!) && /\bconsole\./.test(source!)
  );
  assert.deepEqual(others.map(([file]) => file), []);
});
