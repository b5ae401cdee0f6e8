/** A shader as statements and variables, as far as the checks need it. */

import type { Token } from "./wgsl_tokens.ts";

/** A half-open range of tokens: an expression or a type. */
export interface Range {
  start: number;
  end: number;
}

/** A variable, constant or parameter. */
export interface Variable {
  name: string;
  line: number;
  /** `param` and `override` beside the keywords of the language. */
  keyword: "var" | "let" | "const" | "override" | "param";
  /** What stands in `var<…>`: `workgroup`, `private`, `storage`, `uniform`, or "" in a function. */
  space: string;
  /** For `var<storage, read_write>`. */
  writable: boolean;
  global: boolean;
  type: Range | undefined;
  init: Range | undefined;
  /** `@builtin(…)` on a parameter. */
  builtin: string | undefined;
}

/** A statement; expressions stay ranges of tokens. */
export type Statement =
  | { kind: "block"; body: Statement[] }
  | { kind: "declare"; variable: Variable }
  | { kind: "assign"; line: number; target: Range; operator: string; value: Range | undefined }
  | { kind: "call"; line: number; value: Range }
  | { kind: "if"; line: number; condition: Range; then: Statement; otherwise?: Statement }
  | {
    kind: "loop";
    line: number;
    init?: Statement;
    condition?: Range;
    body: Statement;
    /** The `continuing` block, or what `for` does after each turn. */
    update?: Statement;
  }
  | { kind: "switch"; line: number; selector: Range; cases: Statement[] }
  | { kind: "return"; line: number; value: Range | undefined }
  | { kind: "break" | "continue"; line: number; condition?: Range };

/** A function with its body. */
export interface WgslFunction {
  name: string;
  line: number;
  entry: boolean;
  params: Variable[];
  returns: Range | undefined;
  body: Statement[];
}

/** A member of a struct. */
export interface Member {
  name: string;
  type: Range;
  builtin: string | undefined;
}

/** A shader, read. */
export interface WgslModule {
  tokens: Token[];
  functions: WgslFunction[];
  globals: Variable[];
  structs: Map<string, Member[]>;
  aliases: Map<string, Range>;
  /** Which variable a name token stands for, by the token's index. */
  references: Map<number, Variable>;
}

/** Every statement below, each before what it holds. */
export function* walk(statements: Iterable<Statement>): Generator<Statement> {
  for (const statement of statements) {
    yield statement;
    if (statement.kind === "block") yield* walk(statement.body);
    else if (statement.kind === "if") {
      yield* walk([statement.then]);
      if (statement.otherwise) yield* walk([statement.otherwise]);
    } else if (statement.kind === "switch") yield* walk(statement.cases);
    else if (statement.kind === "loop") {
      if (statement.init) yield* walk([statement.init]);
      yield* walk([statement.body]);
      if (statement.update) yield* walk([statement.update]);
    }
  }
}
