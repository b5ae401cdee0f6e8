/** Expressions in the directives of kernel files: what is known when a kernel is specialised. */

import { describe, isBindable, paste, piecesOf, type Scope, type Value } from "./names.ts";

const TOKEN = /\s*(?:(\d+)|("[^"]*")|([A-Za-z_]\w*)|(\.\.|\|\||&&|==|!=|<=|>=|[-+*/%!<>()?:]))/y;

/** Operators by how tightly they bind, the loosest first. */
const LEVELS: readonly (readonly string[])[] = [
  ["||"],
  ["&&"],
  ["==", "!=", "in"],
  ["<", "<=", ">", ">="],
  ["+", "-"],
  ["*", "/", "%"],
];

/**
 * Evaluates an expression: numbers, `true`, `false`, bound names, words, `"pieces of WGSL"` with names in them, `a ? b : c`, `word in LIST`,
 * and the operators of WGSL; `/` rounds down.
 */
export function evaluate(text: string, scope: Scope): Value {
  const parser = new Parser(text, scope);
  const value = parser.conditional();
  parser.end();
  return value;
}

/** {@linkcode evaluate}, of which the result must be a whole number that is not negative. */
export function evaluateCount(text: string, scope: Scope): number {
  const value = evaluate(text, scope);
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  throw new SyntaxError(`"${text.trim()}" is ${describe(value)}, a count is needed`);
}

/** What expressions consist of: a kernel evaluates few of them many times. */
const known = new Map<string, readonly string[]>();

function tokensOf(text: string): readonly string[] {
  const found = known.get(text);
  if (found) return found;
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) throw new SyntaxError(`"${text}" has "${text[at]}" in it`);
    tokens.push(match[0].trim());
  }
  known.set(text, tokens);
  return tokens;
}

class Parser {
  readonly #tokens: readonly string[];
  readonly #scope: Scope;
  readonly #text: string;
  #next = 0;

  constructor(text: string, scope: Scope) {
    this.#text = text.trim();
    this.#scope = scope;
    this.#tokens = tokensOf(this.#text);
  }

  conditional(): Value {
    const condition = this.#binary(0);
    if (!this.#take("?")) return condition;
    const yes = this.conditional();
    if (!this.#take(":")) throw new SyntaxError(`"${this.#text}" has "?" without ":"`);
    const no = this.conditional();
    return this.#bool(condition) ? yes : no;
  }

  end(): void {
    const rest = this.#tokens[this.#next];
    if (rest !== undefined) throw new SyntaxError(`"${this.#text}" goes on with "${rest}"`);
  }

  #binary(level: number): Value {
    const operators = LEVELS[level];
    if (!operators) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const operator = operators.find((each) => this.#take(each));
      if (operator === undefined) return left;
      left = this.#apply(operator, left, this.#binary(level + 1));
    }
  }

  #apply(operator: string, left: Value, right: Value): Value {
    switch (operator) {
      case "||":
        return this.#bool(left) || this.#bool(right);
      case "&&":
        return this.#bool(left) && this.#bool(right);
      case "==":
        return left === right;
      case "!=":
        return left !== right;
      case "in":
        if (typeof right === "object" && typeof left === "string") return right.includes(left);
        throw new SyntaxError(`"${this.#text}" looks for a word in ${describe(right)}`);
    }
    const [a, b] = [this.#number(left), this.#number(right)];
    switch (operator) {
      case "<":
        return a < b;
      case "<=":
        return a <= b;
      case ">":
        return a > b;
      case ">=":
        return a >= b;
      case "+":
        return a + b;
      case "-":
        return a - b;
      case "*":
        return a * b;
      case "/":
        return Math.floor(a / b);
      default:
        return a % b;
    }
  }

  #unary(): Value {
    if (this.#take("!")) return !this.#bool(this.#unary());
    if (this.#take("-")) return -this.#number(this.#unary());
    if (this.#take("(")) {
      const value = this.conditional();
      if (!this.#take(")")) throw new SyntaxError(`"${this.#text}" lacks a ")"`);
      return value;
    }
    const token = this.#tokens[this.#next++];
    if (token === undefined) throw new SyntaxError(`"${this.#text}" ends where a value is needed`);
    if (/^\d/.test(token)) return Number(token);
    if (token.startsWith('"')) return paste(piecesOf(token.slice(1, -1)), this.#scope);
    if (token === "true" || token === "false") return token === "true";
    if (!/^\w/.test(token)) throw new SyntaxError(`"${this.#text}" has "${token}" out of place`);
    if (!isBindable(token)) return token;
    const value = this.#scope.get(token);
    if (value === undefined) throw new SyntaxError(`"${token}" is not known here`);
    return value;
  }

  #take(token: string): boolean {
    if (this.#tokens[this.#next] !== token) return false;
    this.#next++;
    return true;
  }

  #bool(value: Value): boolean {
    if (typeof value === "boolean") return value;
    throw new SyntaxError(`"${this.#text}" needs true or false where it has ${describe(value)}`);
  }

  #number(value: Value): number {
    if (typeof value === "number") return value;
    throw new SyntaxError(`"${this.#text}" needs a number where it has ${describe(value)}`);
  }
}
