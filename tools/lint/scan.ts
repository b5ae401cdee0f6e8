/** Finds the imports of a TypeScript file without parsing it, fast enough to walk a whole tree. */

interface Import {
  specifier: string;
  /**
   * `value`: evaluated with the file, also `export … from` and `import()`; `type`: `import type` and
   * `export type … from`, gone at run time; `url`: a file named for a worker or for reading,
   * `new URL("./x.ts", import.meta.url)` or `import.meta.resolve("./x.ts")`.
   */
  kind: "value" | "type" | "url";
  /** Counted from 1. */
  line: number;
}

/** A slash starts a regular expression, not a division, after one of these. */
const BEFORE_REGEX = /(?:[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|do|else|void))$/;

/** The end of a quoted string or regular expression that starts at `start`: past its last character. */
function endOfQuoted(source: string, start: number, quote: string): number {
  let inClass = false;
  for (let i = start + 1; i < source.length; i++) {
    const c = source[i];
    if (c === "\\") i++;
    else if (c === "\n" && quote !== "`") return i;
    else if (quote === "/" && c === "[") inClass = true;
    else if (quote === "/" && c === "]") inClass = false;
    else if (c === quote && !inClass) return i + 1;
  }
  return source.length;
}

/** Same length, with everything but line breaks turned into spaces. */
function blank(text: string): string {
  return text.replace(/[^\n]/g, " ");
}

/** Blanks comments, and on demand what strings, regular expressions and templates (not their `${…}`) hold; offsets stay. */
export function stripSource(source: string, texts: "keep" | "blank"): string {
  let out = "";
  // For each template literal we are inside of, the depth of braces within its current `${…}`.
  const nested: number[] = [];

  const copy = (end: number, asCode: boolean) => {
    const text = source.slice(out.length, end);
    out += asCode ? text : blank(text);
  };
  const quoted = (end: number) => {
    copy(out.length + 1, true);
    copy(Math.max(out.length, end - 1), texts === "keep");
    copy(end, true);
  };
  const template = () => {
    let i = out.length;
    while (i < source.length && source[i] !== "`" && !source.startsWith("${", i)) {
      i += source[i] === "\\" ? 2 : 1;
    }
    copy(Math.min(i, source.length), texts === "keep");
    if (source.startsWith("${", i)) {
      nested.push(0);
      copy(i + 2, true);
    } else copy(i + 1, true);
  };

  while (out.length < source.length) {
    const i = out.length;
    const c = source[i]!;
    if (source.startsWith("//", i)) {
      const end = source.indexOf("\n", i);
      copy(end < 0 ? source.length : end, false);
    } else if (source.startsWith("/*", i)) {
      const end = source.indexOf("*/", i + 2);
      copy(end < 0 ? source.length : end + 2, false);
    } else if (c === '"' || c === "'") {
      quoted(endOfQuoted(source, i, c));
    } else if (c === "/" && (out.trim() === "" || BEFORE_REGEX.test(out.trimEnd()))) {
      quoted(endOfQuoted(source, i, "/"));
    } else if (c === "`") {
      copy(i + 1, true);
      template();
    } else {
      copy(i + 1, true);
      const top = nested.length - 1;
      if (top >= 0 && c === "{") nested[top]!++;
      else if (top >= 0 && c === "}") {
        if (nested[top] === 0) {
          nested.pop();
          template();
        } else nested[top]!--;
      }
    }
  }
  return out;
}

// In blanked code a specifier is a run of spaces between quotes; the source has its text.
const QUOTED = String.raw`(?<specifier>"[ ]+"|'[ ]+')`;
const PATTERNS: [RegExp, (match: RegExpMatchArray) => Import["kind"]][] = [
  [
    new RegExp(
      String.raw`(?<![.\w$])(?:import|export)\s+(?<type>type\s+(?!from\b)(?=[\w*{$]))?` +
        String.raw`(?:[\w$\s{},*]*?\bfrom\s*)?${QUOTED}`,
      "dg",
    ),
    (match) => match.groups?.["type"] ? "type" : "value",
  ],
  [
    // `import("./a.ts").Name` is a type: the value is a promise, which has no such property.
    new RegExp(
      String.raw`(?<![.\w$])import\s*\(\s*${QUOTED}(?<type>\s*\)\s*\.\s*[A-Z])?`,
      "dg",
    ),
    (match) => match.groups?.["type"] ? "type" : "value",
  ],
  [
    new RegExp(String.raw`\bnew\s+URL\s*\(\s*${QUOTED}\s*,\s*import\.meta\.url`, "dg"),
    () => "url",
  ],
  [new RegExp(String.raw`\bimport\.meta\.resolve\s*\(\s*${QUOTED}`, "dg"), () => "url"],
];

/** Every import of a file, in the order of the source. */
export function scanImports(source: string): Import[] {
  const code = stripSource(source, "blank");
  const found: { at: number; specifier: string; kind: Import["kind"] }[] = [];
  for (const [pattern, kindOf] of PATTERNS) {
    for (const match of code.matchAll(pattern)) {
      const [start, end] = match.indices!.groups!["specifier"]!;
      found.push({
        at: match.index,
        specifier: source.slice(start + 1, end - 1),
        kind: kindOf(match),
      });
    }
  }
  return found.sort((a, b) => a.at - b.at).map(({ at, specifier, kind }) => ({
    specifier,
    kind,
    line: code.slice(0, at).split("\n").length,
  }));
}
