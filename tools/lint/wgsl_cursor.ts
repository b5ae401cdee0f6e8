/** Steps through tokens of WGSL: the parts of a parser that know only brackets and names. */

import type { Token } from "./wgsl_tokens.ts";
import type { Range } from "./wgsl_tree.ts";

const OPENING: Record<string, string> = { "(": ")", "[": "]", "{": "}" };

/** A place among tokens, with the ways to go on from it. */
export class Cursor {
  /** The index of the token at hand. */
  at = 0;

  constructor(readonly tokens: Token[]) {}

  /** The text at hand, or some tokens further; "" past the end. */
  text(offset = 0): string {
    return this.tokens[this.at + offset]?.text ?? "";
  }

  /** The line at hand. */
  line(): number {
    return this.tokens[Math.min(this.at, this.tokens.length - 1)]?.line ?? 1;
  }

  /** Refuses what is at hand. */
  fail(wanted?: string): never {
    const found = this.text() === "" ? "ends" : `has "${this.text()}"`;
    const hint = wanted === undefined ? "" : ` where "${wanted}" should be`;
    throw new SyntaxError(`Cannot read the shader: line ${this.line()} ${found}${hint}`);
  }

  /** Takes this text and nothing else. */
  expect(text: string): void {
    if (this.text() !== text) this.fail(text);
    this.at++;
  }

  /** Takes this text if it is at hand. */
  accept(text: string): boolean {
    if (this.text() !== text) return false;
    this.at++;
    return true;
  }

  /** Takes a name. */
  name(): Token {
    const token = this.tokens[this.at];
    if (token?.kind !== "name") this.fail("a name");
    this.at++;
    return token;
  }

  /** Skips a bracket with what is in it. */
  balanced(): Range {
    const start = this.at;
    const closing = OPENING[this.text()] ?? this.fail("a bracket");
    this.at++;
    while (this.text() !== closing) {
      if (this.text() === "") this.fail(closing);
      if (OPENING[this.text()]) this.balanced();
      else this.at++;
    }
    this.at++;
    return { start, end: this.at };
  }

  /** Skips to one of the texts, outside brackets, and gives what was skipped. */
  until(...ends: string[]): Range {
    const start = this.at;
    while (!ends.includes(this.text())) {
      if (this.text() === "" || [")", "]", "}"].includes(this.text())) this.fail(ends[0]);
      if (OPENING[this.text()]) this.balanced();
      else this.at++;
    }
    return { start, end: this.at };
  }

  /** A type: a name with an optional list in `<…>`. */
  type(): Range {
    const start = this.at;
    this.name();
    if (this.text() === "<") this.list();
    return { start, end: this.at };
  }

  /** Takes a list in `<…>`. */
  list(): void {
    this.expect("<");
    for (let depth = 1; depth > 0;) {
      const text = this.text();
      if (text === "" || text === ";" || text === "{") this.fail(">");
      if (text === "(") {
        this.balanced();
        continue;
      }
      if (text === "<") depth++;
      else if (text === ">") depth--;
      this.at++;
    }
  }
}
