/** Finds the scalar type behind an expression of WGSL: `i32` for a `vec3<i32>`, and so on. */

import type { Range, Variable, WgslModule } from "./wgsl_tree.ts";

/** `int` is a literal that has not decided; undefined is what cannot be told from the text. */
export type Scalar = "i32" | "u32" | "f32" | "f16" | "bool" | "int";

const SCALARS = new Set<string>(["i32", "u32", "f32", "f16", "bool"]);
const SHORT: Record<string, Scalar> = { i: "i32", u: "u32", f: "f32", h: "f16" };
const TEMPLATED = /^(?:vec[234]|mat[234]x[234]|array|bitcast|ptr|atomic)$/;
const SWIZZLE = /^(?:[xyzw]{1,4}|[rgba]{1,4})$/;

/** Functions whose result has the type of their first argument. */
const LIKE_ARGUMENT =
  /^(?:vec[234]|array|abs|sign|min|max|clamp|select|dot|countOneBits|reverseBits|extractBits|insertBits|first\w+Bit|workgroupUniformLoad|atomic\w+|subgroup\w+)$/;
const RESULTS: Record<string, Scalar> = {
  arrayLength: "u32",
  dot4I8Packed: "i32",
  dot4U8Packed: "u32",
  unpack4xI8: "i32",
  unpack4xU8: "u32",
};

/** The type that a literal shows, `int` for a whole number without a suffix. */
function scalarOfNumber(text: string): Scalar {
  const hex = /^0x/i.test(text);
  const suffix = SHORT[text.at(-1)!];
  if (suffix === "i32" || suffix === "u32" || (suffix && !hex)) return suffix;
  return !hex && /[.eE]/.test(text) ? "f32" : "int";
}

/** Answers for one shader. */
export class ScalarTypes {
  readonly #module: WgslModule;
  readonly #known = new Map<Variable, Scalar | undefined>();

  constructor(module: WgslModule) {
    this.#module = module;
  }

  #text(i: number): string {
    return this.#module.tokens[i]?.text ?? "";
  }

  /** The index past the bracket that opens at `i`; `<` closes with `>`. */
  after(i: number): number {
    const closing = ({ "(": ")", "[": "]", "{": "}", "<": ">" } as const)[this.#text(i)];
    if (closing === undefined) throw new RangeError(`Cannot find a bracket at token ${i}`);
    const opening = this.#text(i);
    for (let depth = 0; i < this.#module.tokens.length; i++) {
      if (this.#text(i) === opening) depth++;
      else if (this.#text(i) === closing && --depth === 0) return i + 1;
    }
    return i;
  }

  /** The scalar in a type, through aliases. */
  ofType({ start, end }: Range): Scalar | undefined {
    for (let i = start; i < end; i++) {
      const name = this.#text(i);
      if (SCALARS.has(name)) return name as Scalar;
      const short = /^(?:vec[234]|mat[234]x[234])([iufh])$/.exec(name)?.[1];
      if (short) return SHORT[short];
      const alias = this.#module.aliases.get(name);
      if (alias) return this.ofType(alias);
    }
    return undefined;
  }

  /** The scalar of a variable, from its type or from what it begins with. */
  ofVariable(variable: Variable): Scalar | undefined {
    if (this.#known.has(variable)) return this.#known.get(variable);
    this.#known.set(variable, undefined);
    let scalar: Scalar | undefined;
    if (variable.type) scalar = this.ofType(variable.type);
    else if (variable.init) scalar = this.of(variable.init);
    // Whole numbers without a suffix become i32 in everything but a constant.
    if (scalar === "int" && variable.keyword !== "const") scalar = "i32";
    this.#known.set(variable, scalar);
    return scalar;
  }

  /**
   * The scalar of an expression: that of its first operand that shows one. Of a list of arguments,
   * that of the first.
   */
  of({ start, end }: Range): Scalar | undefined {
    let literal: Scalar | undefined;
    let found: Scalar | undefined;
    let list = false;
    for (let i = start; i < end;) {
      const token = this.#module.tokens[i]!;
      const shift = token.text === ">" && (this.#text(i + 1) === ">" || this.#text(i - 1) === ">");
      const compares = ["==", "!=", "<", "<=", "&&", "||", "!"].includes(token.text);
      if (compares || (token.text === ">" && !shift)) return list ? found ?? literal : "bool";
      if (token.text === ",") {
        if (found !== undefined) return found;
        list = true;
      }
      let scalar: Scalar | undefined;
      let next = i + 1;
      if (token.kind === "number") scalar = scalarOfNumber(token.text);
      else if (token.text === "(") {
        next = this.after(i);
        scalar = this.of({ start: i + 1, end: next - 1 });
      } else if (token.text === "[") next = this.after(i);
      else if (token.kind === "name" && this.#text(i - 1) !== ".") {
        [scalar, next] = this.#ofName(i);
      }
      if (scalar === "int") literal = scalar;
      else found ??= scalar;
      i = next;
    }
    return found ?? literal;
  }

  /** The scalar of the call or variable that begins at a name, and the index past it. */
  #ofName(i: number): [Scalar | undefined, number] {
    const name = this.#text(i);
    if (TEMPLATED.test(name) && this.#text(i + 1) === "<") {
      const end = this.after(i + 1);
      return [this.ofType({ start: i + 1, end }), this.#text(end) === "(" ? this.after(end) : end];
    }
    if (this.#text(i + 1) === "(") {
      const end = this.after(i + 1);
      return [this.#ofCall(name, { start: i + 2, end: end - 1 }), end];
    }
    const variable = this.#module.references.get(i);
    let scalar = variable && this.ofVariable(variable);
    let struct = variable?.type && this.#structIn(variable.type);
    let next = i + 1;
    while (this.#text(next) === "[" || this.#text(next) === ".") {
      if (this.#text(next) === "[") {
        next = this.after(next);
        continue;
      }
      const member = this.#member(this.#text(next + 1), struct);
      if (member) {
        scalar = this.ofType(member);
        struct = this.#structIn(member);
      }
      next += 2;
    }
    return [scalar, next];
  }

  #ofCall(name: string, args: Range): Scalar | undefined {
    const result = this.#module.functions.find((f) => f.name === name);
    if (result) return result.returns && this.ofType(result.returns);
    const token = this.#module.aliases.get(name);
    if (token) return this.ofType(token);
    if (SCALARS.has(name)) return name as Scalar;
    const short = /^(?:vec[234]|mat[234]x[234])([iufh])$/.exec(name)?.[1];
    if (short) return SHORT[short];
    if (RESULTS[name]) return RESULTS[name];
    if (name.startsWith("pack")) return "u32";
    return LIKE_ARGUMENT.test(name) ? this.of(args) : undefined;
  }

  #structIn({ start, end }: Range): string | undefined {
    for (let i = start; i < end; i++) {
      if (this.#module.structs.has(this.#text(i))) return this.#text(i);
    }
    return undefined;
  }

  /** The type of a member; of any struct that has it where the struct is not known. */
  #member(name: string, struct: string | undefined): Range | undefined {
    const structs = struct === undefined
      ? SWIZZLE.test(name) ? [] : [...this.#module.structs.values()]
      : [this.#module.structs.get(struct)!];
    return structs.flat().find((member) => member.name === name)?.type;
  }
}
