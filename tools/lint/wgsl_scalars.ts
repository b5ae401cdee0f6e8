/** Tells the scalar type behind an operand of WGSL, as far as names and literals near by show it. */

import type { Token } from "./wgsl_tokens.ts";

/** `int` is a literal that has not decided; undefined is what cannot be told from the text. */
type Scalar = "i32" | "u32" | "f32" | "f16" | "bool" | "int";

/** A range of tokens: from `start` up to `end`, which is not part of it. */
interface Range {
  readonly start: number;
  readonly end: number;
}

const SHORT: Readonly<Record<string, Scalar>> = { i: "i32", u: "u32", f: "f32", h: "f16" };
/** Functions whose result has the type of their first argument. */
const LIKE_ARGUMENT =
  /^(?:vec[234]|abs|sign|min|max|clamp|select|dot|workgroupUniformLoad|atomic\w+|subgroup\w+)$/;
const RESULTS: Readonly<Record<string, Scalar>> = {
  arrayLength: "u32",
  dot4I8Packed: "i32",
  dot4U8Packed: "u32",
  pack2x16float: "u32",
  pack4xI8Clamp: "u32",
};

/** Names with their types: of one function, or of the whole shader. */
type Names = Map<string, Scalar>;

/** Answers for one shader. A name that has several types within a function counts as i32 when one of them is. */
export class Scalars {
  readonly #tokens: readonly Token[];
  readonly #globals: Names = new Map();
  readonly #members: Names = new Map();
  readonly #functions: (Range & { readonly names: Names })[] = [];

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
    for (let i = 0; i < tokens.length; i++) {
      if (this.#text(i) === "struct") i = this.#declareMembers(i + 2);
      else if (this.#text(i) === "fn") i = this.#declareFunction(i);
      else this.#declareVariable(i, this.#globals, this.#globals);
    }
  }

  /** The index past the bracket that opens at `i`; `<` closes with `>`. */
  after(i: number): number {
    const opening = this.#text(i);
    const closing = ({ "(": ")", "[": "]", "{": "}", "<": ">" } as const)[opening];
    if (closing === undefined) throw new RangeError(`Cannot find a bracket at token ${i}`);
    for (let depth = 0; i < this.#tokens.length; i++) {
      if (this.#text(i) === opening) depth++;
      else if (this.#text(i) === closing && --depth === 0) return i + 1;
    }
    return i;
  }

  isInFunction(i: number): boolean {
    return this.#functionAt(i) !== undefined;
  }

  /** The scalar of an expression: that of its first operand that shows one. Of a list, that of the first element. */
  of(range: Range): Scalar | undefined {
    return this.#of(range, this.#functionAt(range.start)?.names ?? this.#globals);
  }

  ofType({ start, end }: Range): Scalar | undefined {
    for (let i = start; i < end; i++) {
      const name = this.#text(i);
      if (/^(?:i32|u32|f32|f16|bool)$/.test(name)) return name as Scalar;
      const short = /^(?:vec[234]|mat[234]x[234])([iufh])$/.exec(name)?.[1];
      if (short) return SHORT[short];
    }
    return undefined;
  }

  #text(i: number): string {
    return this.#tokens[i]?.text ?? "";
  }

  #functionAt(i: number): { names: Names } | undefined {
    return this.#functions.find(({ start, end }) => i >= start && i < end);
  }

  /** The index of the first of some tokens from `i` on, outside of brackets. */
  #find(ends: readonly string[], i: number): number {
    while (i < this.#tokens.length && !ends.includes(this.#text(i))) {
      const isList = this.#text(i) === "<" &&
        /^(?:vec|mat|array|ptr|atomic)/.test(this.#text(i - 1));
      i = isList || ["(", "[", "{"].includes(this.#text(i)) ? this.after(i) : i + 1;
    }
    return i;
  }

  #note(names: Names, name: string, scalar: Scalar | undefined): void {
    if (scalar && names.get(name) !== "i32") names.set(name, scalar);
  }

  #declareMembers(open: number): number {
    const end = this.after(open);
    for (let i = open; i < end; i++) this.#declareTyped(i, this.#members);
    return end - 1;
  }

  /** `name: type` at `i`. */
  #declareTyped(i: number, names: Names): void {
    if (this.#tokens[i]!.kind !== "name" || this.#text(i + 1) !== ":") return;
    const end = this.#find([",", ")", "}", "=", ";"], i + 2);
    this.#note(names, this.#text(i), this.ofType({ start: i + 2, end }));
  }

  #declareFunction(i: number): number {
    const params = i + 2;
    const open = this.#find(["{"], this.after(params));
    const end = this.after(open);
    this.#note(
      this.#globals,
      this.#text(i + 1),
      this.ofType({ start: this.after(params), end: open }),
    );
    const names: Names = new Map();
    for (let j = params; j < open; j++) this.#declareTyped(j, names);
    for (let j = open; j < end; j++) this.#declareVariable(j, names, names);
    this.#functions.push({ start: open, end, names });
    return end - 1;
  }

  /** `let`, `var` or `const` at `i`. */
  #declareVariable(i: number, names: Names, scope: Names): void {
    const keyword = this.#text(i);
    if (!["let", "var", "const", "override"].includes(keyword)) return;
    const name = this.#text(i + 1) === "<" ? this.after(i + 1) : i + 1;
    if (this.#text(name + 1) === ":") return this.#declareTyped(name, names);
    const end = this.#find([";"], name);
    const scalar = this.#of({ start: name + 2, end }, scope);
    // Whole numbers without a suffix become i32 in everything but a constant.
    this.#note(names, this.#text(name), scalar === "int" && keyword !== "const" ? "i32" : scalar);
  }

  #of({ start, end }: Range, names: Names): Scalar | undefined {
    let literal: Scalar | undefined;
    let found: Scalar | undefined;
    let isList = false;
    for (let i = start; i < end;) {
      const { kind, text } = this.#tokens[i]!;
      const shifts = text === ">" && (this.#text(i + 1) === ">" || this.#text(i - 1) === ">");
      if (/^(?:[=!<>]=|[<>!]|&&|\|\|)$/.test(text) && !shifts) return isList ? literal : "bool";
      if (text === ",") {
        if (found !== undefined) return found;
        isList = true;
      }
      let scalar: Scalar | undefined;
      let next = i + 1;
      if (kind === "number") scalar = scalarOfNumber(text);
      else if (text === "(") {
        next = this.after(i);
        scalar = this.#of({ start: i + 1, end: next - 1 }, names);
      } else if (text === "[") next = this.after(i);
      else if (kind === "name" && this.#text(i - 1) !== ".") {
        [scalar, next] = this.#ofName(i, names);
      }
      if (scalar === "int") literal = scalar;
      else found ??= scalar;
      i = next;
    }
    return found ?? literal;
  }

  /** The scalar of the call or variable that begins at a name, and the index past it. */
  #ofName(i: number, names: Names): [Scalar | undefined, number] {
    const name = this.#text(i);
    if (/^(?:vec[234]|mat[234]x[234]|array|bitcast)$/.test(name) && this.#text(i + 1) === "<") {
      const end = this.after(i + 1);
      const type = this.ofType({ start: i + 1, end });
      return [type, this.#text(end) === "(" ? this.after(end) : end];
    }
    if (this.#text(i + 1) === "(") {
      const end = this.after(i + 1);
      const own = RESULTS[name] ?? this.ofType({ start: i, end: i + 1 }) ?? this.#globals.get(name);
      const like = LIKE_ARGUMENT.test(name);
      return [own ?? (like ? this.#of({ start: i + 2, end: end - 1 }, names) : undefined), end];
    }
    let scalar = names.get(name) ?? this.#globals.get(name);
    let next = i + 1;
    while (this.#text(next) === "[" || this.#text(next) === ".") {
      if (this.#text(next) === "[") {
        next = this.after(next);
        continue;
      }
      const isSwizzle = /^(?:[xyzw]{1,4}|[rgba]{1,4})$/.test(this.#text(next + 1));
      if (!isSwizzle || !scalar) scalar = this.#members.get(this.#text(next + 1)) ?? scalar;
      next += 2;
    }
    return [scalar, next];
  }
}

/** The type that a literal shows, `int` for a whole number without a suffix. */
function scalarOfNumber(text: string): Scalar {
  const hex = /^0x/i.test(text);
  const suffix = SHORT[text.at(-1)!];
  if (suffix === "i32" || suffix === "u32" || (suffix && !hex)) return suffix;
  return !hex && /[.eE]/.test(text) ? "f32" : "int";
}
