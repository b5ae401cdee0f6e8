/** Texts of others meet our patterns: none of these may take the square of a text's length. */
import { strict as assert } from "node:assert";
import { fixText } from "../../models/ftfy/mod.ts";
import { CHARSETS } from "../../models/ftfy/mojibake.ts";
import { readTree } from "../../tools/root.ts";

/** Everything of ours but the page, which runs in the browser of whoever types into it. */
const ROOMS = [
  ...["commands/", "engine/", "generation/", "hub/", "library/", "media/", "models/"],
  ...["report/", "runtime/", "server/"],
];
const LENGTH = 100_000;
/** A linear pattern takes a few milliseconds, one that takes the square some seconds. */
const MAX_MS = 200;

interface Pattern {
  source: string;
  flags: string;
  /** Where it stands. */
  places: string[];
}

/** The regular expressions of a source, and the lines that build some out of text. */
function patternsIn(file: string, source: string): { literals: Pattern[]; built: string[] } {
  const literals: Pattern[] = [];
  const built: string[] = [];
  const place = (at: number) => `${file}:${source.slice(0, at).split("\n").length}`;
  const plugin: Deno.lint.Plugin = {
    name: "patterns",
    rules: {
      all: {
        create: () => ({
          Literal(node) {
            if (!("regex" in node && node.regex)) return;
            const { pattern, flags } = node.regex;
            literals.push({ source: pattern, flags, places: [place(node.range[0])] });
          },
          NewExpression({ callee, range }) {
            if (callee.type === "Identifier" && callee.name === "RegExp") {
              built.push(place(range[0]));
            }
          },
        }),
      },
    },
  };
  Deno.lint.runPlugin(plugin, file, source);
  return { literals, built };
}

/** What a class stands for, in a few characters. */
const OF_CLASS: Readonly<Record<string, string>> = {
  ...{ d: "0", D: "a", w: "a", W: "-", s: " \n\t", S: "a", b: "a", B: "a", p: "aé", P: " " },
  ...{ n: "\n", r: "\r", t: "\t", v: "\v", f: "\f", 0: "\0" },
};

/** The characters that a pattern may be about, and its words. */
function alphabetOf(source: string): Set<string> {
  const found = new Set([...' a0A_-."\n']);
  const plain = source.replace(
    /\\(?:u([\da-f]{4})|x([\da-f]{2})|[pP]\{[^}]{1,40}\}|(.))/gi,
    (escape: string, long?: string, short?: string, one?: string) => {
      const code = long ?? short;
      if (code !== undefined) return String.fromCharCode(parseInt(code, 16));
      const stands = OF_CLASS[one ?? escape[1]!];
      for (const character of stands ?? "") found.add(character);
      return stands === undefined ? one! : "";
    },
  );
  for (const character of plain) found.add(character);
  for (const [word] of plain.matchAll(/[\w <>:="'-]{2,}/g)) found.add(word);
  return found;
}

/** What can stand before repeated characters: how the pattern begins. */
function beginningOf(source: string): string {
  const [, text = "", last = "", sign] =
    /^\^?([\w <>:="'-]*)([\w <>:="'-])([?*+{])?/.exec(source) ?? [];
  return sign === undefined ? text + last : text;
}

function milliseconds(pattern: RegExp, text: string): number {
  const start = performance.now();
  for (const _ of text.matchAll(pattern));
  return performance.now() - start;
}

/** The text on which a pattern takes too long; nothing where there is none. */
function slowOn({ source, flags }: Pick<Pattern, "source" | "flags">): string | undefined {
  const pattern = new RegExp(source, [...new Set(`${flags}g`)].join(""));
  for (const repeated of alphabetOf(source)) {
    for (const before of new Set(["", beginningOf(source)])) {
      for (const after of ["", repeated === "\0" ? "!" : "\0"]) {
        const takes = (length: number) =>
          milliseconds(pattern, before + repeated.repeat(length / repeated.length) + after);
        // A short text tells nearly all; what it shows once more, since the machine may have been at something else.
        const short = LENGTH / 5;
        if (takes(short) < MAX_MS / 100) continue;
        const isSlow = [short, LENGTH].some((length) => {
          const limit = MAX_MS * length / LENGTH;
          return takes(length) > limit && takes(length) > limit;
        });
        if (isSlow) {
          return JSON.stringify([before, repeated, after]);
        }
      }
    }
  }
  return undefined;
}

Deno.test("slowOn() finds patterns that take the square of a text's length", () => {
  for (const source of ["\\s*\\n", "\\d+$", "\\0+$", "ab.*c", "^k: \\w*\\w*!"]) {
    assert.notEqual(slowOn({ source, flags: "" }), undefined, source);
  }
  assert.equal(slowOn({ source: "(?<!\\d)\\d+$", flags: "" }), undefined);
});

Deno.test("no pattern of ours takes the square of a text's length", () => {
  const all = new Map<string, Pattern>();
  const built: string[] = [];
  for (const [file, source] of ROOMS.flatMap((room) => [...readTree(room, [".ts"])])) {
    if (file.endsWith("_test.ts")) continue;
    const found = patternsIn(file, source);
    built.push(...found.built);
    for (const pattern of found.literals) {
      const key = `/${pattern.source}/${pattern.flags}`;
      all.get(key)?.places.push(...pattern.places) ?? all.set(key, pattern);
    }
  }
  assert.ok(all.size > 200, `${all.size} patterns`);
  const slow = [...all].flatMap(([key, pattern]) => {
    const text = slowOn(pattern);
    return text === undefined ? [] : [`${pattern.places.join(", ")}: ${key} on ${text}`];
  });
  assert.deepEqual(slow, []);
  // These are built of our own names, of shaders, of an operator's flags, or have tests of their own.
  const known =
    /^(?:commands\/flag_readers|generation\/settings|hub\/(?:cache|choose_files|hub_client)|models\/ftfy\/mojibake|models\/tokenizers\/(?:added_tokens|patterns|pre_tokenizers)|runtime\/(?:device\/host_memory|program\/half_results|program\/copy_elision|shaders\/assemble|shaders\/directives)|server\/loras\/lora_files)\.ts:/;
  assert.deepEqual(built.filter((place) => !known.test(place)), []);
});

Deno.test("fixText() takes no longer than its text is long", () => {
  const pumps = CHARSETS.flatMap((
    { upper },
  ) => [upper[0xc3 - 0x80]!, upper[0xe2 - 0x80]!, upper[0]!]);
  for (const pump of new Set([...pumps, "Ã ", "â€", "ï¿½", "&amp;", "&", "\ufffd"])) {
    const text = pump.repeat(LENGTH / pump.length);
    const isSlow = () => {
      const start = performance.now();
      fixText(text);
      return performance.now() - start > 4 * MAX_MS;
    };
    // The machine may be at something else.
    assert.ok(!(isSlow() && isSlow() && isSlow()), JSON.stringify(pump));
  }
});
