/** Docstrings say what a reader cannot see; those of the interfaces say everything. */
import { strict as assert } from "node:assert";
import { dirname, join } from "node:path/posix";
import { readTree } from "../../tools/root.ts";

const INTERFACES: readonly string[] = [
  "mod.ts",
  "server/mod.ts",
  "runtime/mod.ts",
  "browser/mod.ts",
  "client/mod.ts",
];
/** What makes a short tag worth its line: a number, code, a shape, a unit, a case. */
const FACT =
  /[\d`[\]×]|\b(?:bytes?|pixels?|milliseconds?|ms|seconds?|radians|degrees|samples|Hz|shape|null|undefined|NaN|true|false|default|left out)\b/i;
const MOST_WORDS = 7;

/** Files whose exports an interface gives on, directly or not. */
function publicFiles(sources: ReadonlyMap<string, string>): Set<string> {
  const found = new Set(INTERFACES);
  for (const file of found) {
    const exports = sources.get(file)!.matchAll(
      /export\s+(?:type\s+)?[{*][^;]*?from\s+"(\.[^"]+)"/g,
    );
    for (const [, path] of exports) found.add(join(dirname(file), path!));
  }
  return found;
}

/** Tags of one file that say nothing which its signature does not. */
function emptyTags(source: string): string[] {
  return [...source.matchAll(/^ *\/\*\*.*?\*\//gms)].flatMap(([block]) => {
    const lines = block.replace(/\*\/$/, "").split("\n").map((line) =>
      line.replace(/^\s*\* ?/, "")
    );
    const tags = lines.join(" ").split(/(?=@(?:param|returns|module)\b)/).slice(1);
    return tags.filter((tag) => {
      const text = tag.trim().replace(/^@(?:returns|param\s+\S+)\s*/, "");
      return tag.startsWith("@module") ||
        (text.split(/\s+/).length <= MOST_WORDS && !FACT.test(text));
    });
  });
}

Deno.test("no docstring repeats its signature, but for those of the interfaces", () => {
  const sources = readTree("", [".ts"]);
  const isPublic = publicFiles(sources);
  assert.ok(isPublic.size > 100);
  const found = [...sources].filter(([file]) => !isPublic.has(file))
    .flatMap(([file, source]) => emptyTags(source).map((tag) => `${file}: ${tag.trim()}`));
  assert.deepEqual(found, []);
});
