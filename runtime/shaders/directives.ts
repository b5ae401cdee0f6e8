/** Reads a kernel file: WGSL with directives on lines of their own, which begin with `//#`. README.md has the language. */
import { isBindable, type Piece, piecesOf } from "./names.ts";

/** What a parameter may be: the words of a list are its choices. */
type ParamKind = "bool" | "u32" | "word" | "words" | "wgsl" | readonly string[];

/** A parameter that a file declares. */
export interface ParamDeclaration {
  readonly kind: "param";
  readonly line: number;
  readonly name: string;
  readonly type: ParamKind;
  /** An expression. */
  readonly fallback?: string;
}

/** One line or block of a file; `line` counts from 1. */
export type Node =
  | ParamDeclaration
  | { readonly kind: "text"; readonly line: number; readonly pieces: readonly Piece[] }
  | { readonly kind: "let"; readonly line: number; readonly name: string; readonly value: string }
  | { readonly kind: "if"; readonly line: number; readonly branches: readonly Branch[] }
  | {
    readonly kind: "for";
    readonly line: number;
    readonly loops: readonly Loop[];
    readonly body: readonly Node[];
  }
  | {
    readonly kind: "include";
    readonly line: number;
    readonly path: string;
    /** Values of parameters, not evaluated. */
    readonly values: ReadonlyMap<string, string>;
  }
  | {
    readonly kind: "buffer";
    readonly line: number;
    readonly access: "read" | "read_write" | "count";
    readonly name: readonly Piece[];
    readonly width: string;
    readonly isExact: boolean;
  }
  | {
    readonly kind: "uniform";
    readonly line: number;
    readonly name: readonly Piece[];
    readonly type: "u32" | "i32" | "f32";
  }
  | { readonly kind: "workgroup"; readonly line: number; readonly sizes: readonly string[] }
  | { readonly kind: "subgroup_size"; readonly line: number; readonly size: string }
  | { readonly kind: "enable"; readonly line: number; readonly extension: string };

/** `//#if`, `//#elif` or, without a condition, `//#else`. */
export interface Branch {
  readonly line: number;
  readonly condition?: string;
  readonly body: readonly Node[];
}

/** One variable of a `//#for`: it runs through a range, the words of a list, or those written down. */
export interface Loop {
  readonly name: string;
  readonly from?: string;
  readonly to?: string;
  readonly words?: readonly string[];
  readonly list?: string;
}

/**
 * Reads a file.
 *
 * @param path of the file below `runtime/shaders/`, for messages
 */
export function parseShader(path: string, source: string): readonly Node[] {
  return new Reader(path, source).block([]).body;
}

const DIRECTIVE = /^\s*\/\/#(\S*)\s*(.*?)\s*$/;
const NAME = "[A-Z][A-Z0-9_]*";
const CHOICES = /^\w+(?: \| \w+)+$/;
const SIMPLE = ["bool", "u32", "word", "words", "wgsl"] as const;

class Reader {
  readonly #path: string;
  readonly #lines: readonly string[];
  #at = 0;

  constructor(path: string, source: string) {
    this.#path = path;
    this.#lines = source.split("\n");
  }

  /** Everything up to a directive in `ends`, or up to the end of the file where there is none. */
  block(ends: readonly string[]): { body: Node[]; end?: string; rest: string; line: number } {
    const opened = this.#at;
    const body: Node[] = [];
    while (this.#at < this.#lines.length) {
      const line = ++this.#at;
      const text = this.#lines[line - 1]!;
      const match = DIRECTIVE.exec(text);
      if (!match) {
        const node = textOf(text, line);
        if (node) body.push(node);
        continue;
      }
      const word = match[1]!;
      const rest = withoutComment(match[2]!);
      if (ends.includes(word)) return { body, end: word, rest, line };
      body.push(this.#directive(word, rest, line));
    }
    if (ends.length > 0) throw this.#error(opened, `it is not closed by //#${ends.at(-1)}`);
    return { body, rest: "", line: this.#at };
  }

  #directive(word: string, rest: string, line: number): Node {
    const fields = (pattern: RegExp, form: string): string[] => {
      const match = pattern.exec(rest);
      if (!match) throw this.#error(line, `//#${word} must be written //#${word} ${form}`);
      return match.slice(1);
    };
    switch (word) {
      case "param":
        return this.#param(
          fields(
            new RegExp(`^(${NAME}): ([^=]+?)(?: = (.+))?$`),
            "NAME: bool | u32 | word | words | wgsl | choice | … = default",
          ),
          line,
        );
      case "let": {
        const [name, value] = fields(new RegExp(`^(${NAME}) = (.+)$`), "NAME = expression");
        return { kind: "let", line, name: name!, value: value! };
      }
      case "if":
        return this.#if(rest, line);
      case "for": {
        const loops = rest.split(",").map((loop) => this.#loop(loop.trim(), line));
        return { kind: "for", line, loops, body: this.block(["endfor"]).body };
      }
      case "include": {
        const [path, values] = fields(
          /^"([\w/]+\.wgsl)"\s*(.*)$/,
          '"folder/file.wgsl" NAME=value, …',
        );
        return { kind: "include", line, path: path!, values: this.#values(values!, line) };
      }
      case "buffer": {
        const form = "read|read_write|count name width [exact]";
        const [access, name, width, exact] = fields(
          /^(read|read_write|count)\s+(\w+)\s+(\w+)(?:\s+(exact))?$/,
          form,
        );
        return {
          kind: "buffer",
          line,
          access: access as "read" | "read_write" | "count",
          name: piecesOf(name!),
          width: width!,
          isExact: exact !== undefined,
        };
      }
      case "uniform": {
        const [name, type] = fields(/^(\w+): (u32|i32|f32)$/, "name: u32|i32|f32");
        return {
          kind: "uniform",
          line,
          name: piecesOf(name!),
          type: type as "u32" | "i32" | "f32",
        };
      }
      case "workgroup": {
        const sizes = fields(/^([^,]+),([^,]+),([^,]+)$/, "x, y, z");
        return { kind: "workgroup", line, sizes };
      }
      case "subgroup_size":
        return { kind: "subgroup_size", line, size: fields(/^(.+)$/, "size")[0]! };
      case "enable":
        return { kind: "enable", line, extension: fields(/^(f16)$/, "f16")[0]! };
    }
    throw this.#error(line, `//#${word} is no directive, or stands alone`);
  }

  #param([name, type, fallback]: string[], line: number): Node {
    const simple = SIMPLE.find((each) => each === type);
    if (!simple && !CHOICES.test(type!)) {
      throw this.#error(line, `"${type}" is no type: ${SIMPLE.join(", ")}, or choices a | b`);
    }
    return {
      kind: "param",
      line,
      name: name!,
      type: simple ?? type!.split(" | "),
      ...(fallback !== undefined && { fallback }),
    };
  }

  #if(first: string, start: number): Node {
    const branches: Branch[] = [];
    let condition: string | undefined = first;
    let line = start;
    for (;;) {
      if (condition === "") throw this.#error(line, "it has no condition");
      const isLast = condition === undefined;
      const { body, end, rest, line: next } = this.block(
        isLast ? ["endif"] : ["elif", "else", "endif"],
      );
      branches.push({ line, body, ...(condition !== undefined && { condition }) });
      if (end === "endif") return { kind: "if", line: start, branches };
      condition = end === "elif" ? rest : undefined;
      line = next;
    }
  }

  #loop(text: string, line: number): Loop {
    const match = new RegExp(`^(${NAME}) in (.+)$`).exec(text);
    if (!match) throw this.#error(line, "//#for must be written //#for NAME in 0..COUNT, …");
    const [, name, range] = match as unknown as [string, string, string];
    const ends = range.split("..");
    if (ends.length === 2) return { name, from: ends[0]!, to: ends[1]! };
    const words = range.split(/\s+/);
    return words.length === 1 && isBindable(range) ? { name, list: range } : { name, words };
  }

  #values(text: string, line: number): Map<string, string> {
    const values = new Map<string, string>();
    for (const part of splitArguments(text)) {
      const match = new RegExp(`^(${NAME})=(.+)$`).exec(part);
      if (!match) throw this.#error(line, `"${part}" must be written NAME=value`);
      values.set(match[1]!, match[2]!);
    }
    return values;
  }

  #error(line: number, reason: string): ShaderError {
    return new ShaderError(this.#path, line, reason);
  }
}

/** A line of WGSL without its comment; nothing where no text is left. */
function textOf(text: string, line: number): Node | undefined {
  const code = withoutComment(text).trimEnd();
  if (code.trim() === "") return undefined;
  const enable = /^enable (\w+);$/.exec(code);
  if (enable) return { kind: "enable", line, extension: enable[1]! };
  return { kind: "text", line, pieces: piecesOf(code) };
}

function withoutComment(text: string): string {
  const at = text.indexOf("//");
  return at === -1 ? text : text.slice(0, at).trimEnd();
}

/** Cuts at commas outside of brackets. */
function splitArguments(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if ("(<[".includes(text[i]!)) depth++;
    else if (")>]".includes(text[i]!)) depth--;
    else if (text[i] === "," && depth === 0) {
      parts.push(text.slice(start, i).trim());
      start = i + 1;
    }
  }
  const last = text.slice(start).trim();
  return last === "" ? parts : [...parts, last];
}

/** What is wrong with a kernel file, or with how it is used. */
export class ShaderError extends Error {
  override readonly name = "ShaderError";

  /** @param line counted from 1 */
  constructor(path: string, line: number, reason: string, options?: ErrorOptions) {
    super(`Cannot expand ${path}:${line}: ${reason}`, options);
  }
}
