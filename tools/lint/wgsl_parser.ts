/** Reads WGSL. */

import { Cursor } from "./wgsl_cursor.ts";
import { type Token, tokenizeWgsl } from "./wgsl_tokens.ts";
import type { Member, Range, Statement, Variable, WgslModule } from "./wgsl_tree.ts";

const ASSIGNMENTS = new Set(["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<="]);

/**
 * Reads a shader. Names are resolved by scope, so two loops with a counter `i` have two variables.
 *
 * @throws {SyntaxError} where the text is not WGSL
 */
export function parseWgsl(source: string): WgslModule {
  return new Parser(tokenizeWgsl(source)).module();
}

class Parser extends Cursor {
  #scopes: Map<string, Variable>[] = [new Map()];
  readonly #module: WgslModule;
  /** Expressions of the module, resolved once all its names are known. */
  readonly #late: Range[] = [];

  constructor(tokens: Token[]) {
    super(tokens);
    this.#module = {
      tokens,
      functions: [],
      globals: [],
      structs: new Map(),
      aliases: new Map(),
      references: new Map(),
    };
  }

  module(): WgslModule {
    const bodies: number[] = [];
    while (this.at < this.tokens.length) {
      const start = this.at;
      this.#attributes();
      const word = this.text();
      if (word === "fn") {
        // Functions may use what is declared after them: their bodies wait.
        bodies.push(start);
        this.until("{");
        this.balanced();
      } else if (word === "struct") this.#struct();
      else if (word === "alias") this.#alias();
      else if (word === "var" || word === "const" || word === "override") {
        const variable = this.#declaration(true);
        this.#module.globals.push(variable);
        this.expect(";");
      } else if (["enable", "requires", "diagnostic", "const_assert"].includes(word)) {
        this.until(";");
        this.at++;
      } else if (word === ";") this.at++;
      else this.fail("a declaration");
    }
    for (const range of this.#late) this.#resolve(range);
    for (const start of bodies) {
      this.at = start;
      this.#function();
    }
    return this.#module;
  }

  /** Skips attributes and gives the value of `@builtin(…)` among them, and whether one is a stage. */
  #attributes(): { builtin: string | undefined; entry: boolean } {
    let builtin: string | undefined;
    let entry = false;
    while (this.accept("@")) {
      const { text } = this.name();
      if (["compute", "vertex", "fragment"].includes(text)) entry = true;
      if (text === "builtin") builtin = this.text(1);
      if (this.text() === "(") {
        const { start, end } = this.balanced();
        this.#late.push({ start: start + 1, end: end - 1 });
      }
    }
    return { builtin, entry };
  }

  #struct(): void {
    this.expect("struct");
    const { text } = this.name();
    const members: Member[] = [];
    this.expect("{");
    while (!this.accept("}")) {
      const { builtin } = this.#attributes();
      const name = this.name().text;
      this.expect(":");
      members.push({ name, type: this.type(), builtin });
      if (!this.accept(",") && this.text() !== "}") this.fail("}");
    }
    this.#module.structs.set(text, members);
  }

  #alias(): void {
    this.expect("alias");
    const { text } = this.name();
    this.expect("=");
    this.#module.aliases.set(text, this.type());
    this.expect(";");
  }

  #function(): void {
    const { entry } = this.#attributes();
    this.expect("fn");
    const { text: name, line } = this.name();
    this.#scopes.push(new Map());
    const params: Variable[] = [];
    this.expect("(");
    while (!this.accept(")")) {
      const { builtin } = this.#attributes();
      const token = this.name();
      this.expect(":");
      const param: Variable = {
        name: token.text,
        line: token.line,
        keyword: "param",
        space: "",
        writable: false,
        global: false,
        type: this.type(),
        init: undefined,
        builtin,
      };
      params.push(param);
      this.#declare(param);
      if (!this.accept(",") && this.text() !== ")") this.fail(")");
    }
    let returns: Range | undefined;
    if (this.accept("->")) {
      this.#attributes();
      returns = this.type();
    }
    this.#attributes();
    const body = this.#block().body;
    this.#scopes.pop();
    this.#module.functions.push({ name, line, entry, params, returns, body });
  }

  #declare(variable: Variable): void {
    this.#scopes.at(-1)!.set(variable.name, variable);
  }

  /** Notes which variable each name in a range stands for. */
  #resolve({ start, end }: Range): Range {
    for (let i = start; i < end; i++) {
      if (this.tokens[i]!.kind !== "name" || this.tokens[i - 1]?.text === ".") continue;
      const variable = this.#scopes.findLast((scope) => scope.has(this.tokens[i]!.text))
        ?.get(this.tokens[i]!.text);
      if (variable) this.#module.references.set(i, variable);
    }
    return { start, end };
  }

  #declaration(global: boolean): Variable {
    const keyword = this.name().text as "var" | "let" | "const" | "override";
    let space = "";
    let writable = false;
    if (this.text() === "<") {
      const start = this.at;
      this.list();
      const words = this.tokens.slice(start, this.at).map(({ text }) => text);
      space = words[1] ?? "";
      writable = words.includes("read_write") || words.includes("write");
    }
    const { text: name, line } = this.name();
    const type = this.accept(":") ? this.type() : undefined;
    const init = this.accept("=") ? this.until(";") : undefined;
    for (const range of [type, init]) {
      if (range && global) this.#late.push(range);
      else if (range) this.#resolve(range);
    }
    const variable: Variable = {
      name,
      line,
      keyword,
      space,
      writable,
      global,
      type,
      init,
      builtin: undefined,
    };
    this.#declare(variable);
    return variable;
  }

  #block(): { kind: "block"; body: Statement[] } {
    this.expect("{");
    this.#scopes.push(new Map());
    const body: Statement[] = [];
    while (!this.accept("}")) {
      const statement = this.#statement();
      if (statement) body.push(statement);
    }
    this.#scopes.pop();
    return { kind: "block", body };
  }

  #statement(): Statement | undefined {
    this.#attributes();
    const line = this.line();
    switch (this.text()) {
      case ";":
        this.at++;
        return undefined;
      case "{":
        return this.#block();
      case "if":
        return this.#if();
      case "for":
        return this.#for();
      case "while": {
        this.at++;
        const condition = this.#resolve(this.until("{"));
        return { kind: "loop", line, condition, body: this.#block() };
      }
      case "loop":
        return this.#loop();
      case "switch":
        return this.#switch();
      case "const_assert":
        this.until(";");
        this.at++;
        return undefined;
      case "return": {
        this.at++;
        const value = this.text() === ";" ? undefined : this.#resolve(this.until(";"));
        this.expect(";");
        return { kind: "return", line, value };
      }
      case "discard":
      case "break":
      case "continue": {
        const kind = this.name().text === "continue" ? "continue" : "break";
        if (this.accept("if")) {
          const condition = this.#resolve(this.until(";"));
          this.expect(";");
          return { kind, line, condition };
        }
        this.expect(";");
        return { kind, line };
      }
      default: {
        const statement = this.#simple(";");
        this.expect(";");
        return statement;
      }
    }
  }

  /** A declaration, assignment or call, up to but without what ends it. */
  #simple(end: string): Statement {
    const line = this.line();
    if (["var", "let", "const"].includes(this.text())) {
      return { kind: "declare", variable: this.#declaration(false) };
    }
    const range = this.#resolve(this.until(end));
    let depth = 0;
    for (let i = range.start; i < range.end; i++) {
      const text = this.tokens[i]!.text;
      if (text === "(" || text === "[") depth++;
      else if (text === ")" || text === "]") depth--;
      if (depth > 0) continue;
      if (text === "++" || text === "--") {
        const target = { start: range.start, end: i };
        return { kind: "assign", line, target, operator: text, value: undefined };
      }
      if (ASSIGNMENTS.has(text)) {
        // `>>=` arrives in three.
        const shift = text === "=" && this.tokens[i - 1]?.text === ">";
        const target = { start: range.start, end: shift ? i - 2 : i };
        const value = { start: i + 1, end: range.end };
        return { kind: "assign", line, target, operator: shift ? ">>=" : text, value };
      }
    }
    return { kind: "call", line, value: range };
  }

  #if(): Statement {
    const line = this.line();
    this.expect("if");
    const condition = this.#resolve(this.until("{"));
    const then = this.#block();
    if (!this.accept("else")) return { kind: "if", line, condition, then };
    const otherwise = this.text() === "if" ? this.#if() : this.#block();
    return { kind: "if", line, condition, then, otherwise };
  }

  #for(): Statement {
    const line = this.line();
    this.expect("for");
    this.expect("(");
    this.#scopes.push(new Map());
    const init = this.text() === ";" ? undefined : this.#simple(";");
    this.expect(";");
    const condition = this.text() === ";" ? undefined : this.#resolve(this.until(";"));
    this.expect(";");
    const update = this.text() === ")" ? undefined : this.#simple(")");
    this.expect(")");
    const body = this.#block();
    this.#scopes.pop();
    return {
      kind: "loop",
      line,
      body,
      ...(init && { init }),
      ...(condition && { condition }),
      ...(update && { update }),
    };
  }

  /** `loop { … continuing { … break if …; } }`; the continuing block sees the body's variables. */
  #loop(): Statement {
    const line = this.line();
    this.expect("loop");
    this.#attributes();
    this.expect("{");
    this.#scopes.push(new Map());
    const body: Statement[] = [];
    let update: Statement | undefined;
    while (!this.accept("}")) {
      if (this.accept("continuing")) update = this.#block();
      else {
        const statement = this.#statement();
        if (statement) body.push(statement);
      }
    }
    this.#scopes.pop();
    return { kind: "loop", line, body: { kind: "block", body }, ...(update && { update }) };
  }

  #switch(): Statement {
    const line = this.line();
    this.expect("switch");
    const selector = this.#resolve(this.until("{"));
    const cases: Statement[] = [];
    this.expect("{");
    while (!this.accept("}")) {
      this.#attributes();
      if (!this.accept("default")) {
        this.expect("case");
        this.#resolve(this.until(":", "{"));
      }
      this.accept(":");
      cases.push(this.#block());
    }
    return { kind: "switch", line, selector, cases };
  }
}
