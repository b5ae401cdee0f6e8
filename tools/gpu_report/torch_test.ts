import assert from "node:assert/strict";
import { LADDER } from "../../report/sections/ops.ts";
import { PARTS } from "../../report/sections/parts.ts";

const SOURCE = await Deno.readTextFile(new URL("./torch.py", import.meta.url));

/** The lines of a list in the script. */
function listOf(name: string): string {
  return new RegExp(`^${name} = \\[\\n([^\\]]*)\\]`, "m").exec(SOURCE)![1]!;
}

Deno.test("torch.py times every op of the report, whatever the format of its weights", () => {
  const ours = new Set(LADDER.map((spec) => spec.split(":").slice(0, 2).join(":")));
  const theirs = [...listOf("OPS").matchAll(/"([^"]+)"/g)].map(([, spec]) => spec!);
  assert.deepEqual(new Set(theirs), ours);
  assert.equal(theirs.length, ours.size);
});

Deno.test("torch.py times parts that the report has, at their own sizes", () => {
  const theirs = [...listOf("PARTS").matchAll(/\("([^"]+)", \w+, (\d+), (\d+)\)/g)];
  assert.ok(theirs.length >= 6);
  for (const [, title, width, height] of theirs) {
    const own = PARTS.find((part) => part.title === title);
    assert.deepEqual(own?.sizes[0], { width: Number(width), height: Number(height) }, title);
  }
});
