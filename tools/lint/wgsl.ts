/**
 * Traps of WGSL on the front ends and drivers that denoise runs on, found in the text.
 *
 * Some are faults of naga 29 (Deno 2.9): a variable without an initializer keeps its value between
 * turns of a loop, a pointer to an element as an argument ends the process, `%` of signed numbers
 * is wrong on some GPUs. Others pass there and fail elsewhere: barriers in divergent flow, tanh of
 * large numbers. The rest are rules of the house.
 */

import { parseWgsl } from "./wgsl_parser.ts";
import { type Range, type Variable, walk, type WgslModule } from "./wgsl_tree.ts";
import { ScalarTypes } from "./wgsl_types.ts";
import { divergentCalls } from "./wgsl_uniformity.ts";

/** The name of a rule. */
export type WgslRule =
  | "var-init"
  | "pointer-argument"
  | "f16-bitcast"
  | "signed-remainder"
  | "enable-subgroups"
  | "divergent-barrier"
  | "private-array-index"
  | "global-invocation-id"
  | "tanh-clamp"
  | "swizzle-assignment";

/** A broken rule, with where to mend it. */
export interface WgslProblem {
  /** Counted from 1. */
  line: number;
  rule: WgslRule;
  message: string;
}

type Report = (token: number | { line: number }, rule: WgslRule, message: string) => void;

interface Context {
  module: WgslModule;
  types: ScalarTypes;
  report: Report;
  text(i: number): string;
}

/**
 * The traps in a whole shader, by line.
 *
 * @throws {SyntaxError} where the text is not WGSL
 */
export function lintWgsl(source: string): WgslProblem[] {
  const module = parseWgsl(source);
  const problems: WgslProblem[] = [];
  const context: Context = {
    module,
    types: new ScalarTypes(module),
    report(token, rule, message) {
      const line = typeof token === "number" ? module.tokens[token]!.line : token.line;
      problems.push({ line, rule, message });
    },
    text: (i) => module.tokens[i]?.text ?? "",
  };
  checkStatements(context);
  checkTokens(context);
  checkPrivateArrays(context);
  for (const { line, callee } of divergentCalls(module, context.types)) {
    const message =
      `Cannot call ${callee} here: not every invocation of the workgroup may reach it`;
    problems.push({ line, rule: "divergent-barrier", message });
  }
  return problems.sort((a, b) => a.line - b.line);
}

/** Rules that look at declarations and assignments. */
function checkStatements({ module, report, text }: Context): void {
  const members = new Set([...module.structs.values()].flat().map(({ name }) => name));
  for (const fn of module.functions) {
    for (const param of fn.params) {
      if (param.type && text(param.type.start) === "ptr") {
        const message = `Cannot pass ${param.name} by pointer: pass and return values`;
        report(param, "pointer-argument", message);
      }
    }
    for (const statement of walk(fn.body)) {
      if (statement.kind === "declare") {
        const { keyword, init, name } = statement.variable;
        if (keyword === "var" && init === undefined) {
          const message =
            `Cannot leave ${name} without an initializer: in a loop it keeps its value`;
          report(statement.variable, "var-init", message);
        }
      } else if (statement.kind === "assign") {
        const last = statement.target.end - 1;
        const swizzle = /^(?:[xyzw]{2,4}|[rgba]{2,4})$/.test(text(last));
        if (swizzle && text(last - 1) === "." && !members.has(text(last))) {
          report(last, "swizzle-assignment", `Cannot assign to .${text(last)}: assign the vector`);
        }
      }
    }
  }
}

/** Rules that look at one token and its neighbours. */
function checkTokens(context: Context): void {
  const { module, report, text } = context;
  for (let i = 0; i < module.tokens.length; i++) {
    switch (text(i)) {
      case "enable":
        for (let j = i + 1; text(j) !== ";" && text(j) !== ""; j++) {
          if (text(j) === "subgroups") {
            const message = `Cannot write "enable subgroups;" in a kernel: naga refuses it, and ` +
              `the runtime adds it where it is needed`;
            report(j, "enable-subgroups", message);
          }
        }
        break;
      case "global_invocation_id": {
        const message = "Cannot use global_invocation_id: a dispatch may be split, so take " +
          "workgroup_id plus a base";
        report(i, "global-invocation-id", message);
        break;
      }
      case "tanh":
        checkTanh(context, i);
        break;
      case "bitcast":
        checkBitcast(context, i);
        break;
      case "%":
      case "%=":
        checkRemainder(context, i);
        break;
      case "&":
        checkElementPointer(context, i);
        break;
    }
  }
}

function checkTanh({ types, report, text }: Context, i: number): void {
  if (text(i + 1) !== "(") return;
  const clamped = text(i + 2) === "clamp" && text(i + 3) === "(" &&
    types.after(i + 3) === types.after(i + 1) - 1;
  if (clamped) return;
  report(i, "tanh-clamp", "Cannot take tanh of any number: some drivers give NaN, so clamp first");
}

function checkBitcast({ types, report, text }: Context, i: number): void {
  if (text(i + 1) !== "<") return;
  const open = types.after(i + 1);
  const to = types.ofType({ start: i + 1, end: open });
  const from = types.of({ start: open + 1, end: types.after(open) - 1 });
  if (to !== "f16" && from !== "f16") return;
  const message = "Cannot bitcast f16: naga reads it wrongly, so use unpack2x16float and " +
    "pack2x16float";
  report(i, "f16-bitcast", message);
}

function checkRemainder(context: Context, i: number): void {
  const { types, report, text } = context;
  const start = startOfOperand(context, i);
  const left = types.of({ start, end: i });
  const right = types.of({ start: i + 1, end: endOfOperand(context, i + 1) });
  const negative = left === "int" && text(start - 1) === "-" && !isOperandEnd(context, start - 2);
  if (left !== "i32" && right !== "i32" && !negative) return;
  const message = `Cannot take ${text(i)} of i32: some GPUs give wrong remainders of negative ` +
    `numbers, so use u32 or a - b * (a / b)`;
  report(i, "signed-remainder", message);
}

/** Whether a token can end an operand, so that an operator after it takes two. */
function isOperandEnd({ module, text }: Context, i: number): boolean {
  const kind = module.tokens[i]?.kind;
  if (kind === "name") return text(i) !== "return";
  return kind === "number" || text(i) === ")" || text(i) === "]";
}

/** Where the operand before an operator begins: a name, number or bracket with its postfixes. */
function startOfOperand(context: Context, operator: number): number {
  const { text } = context;
  let i = operator - 1;
  for (;;) {
    if (text(i) === ")" || text(i) === "]") {
      const closing = text(i);
      const opening = closing === ")" ? "(" : "[";
      for (let depth = 0; i >= 0; i--) {
        if (text(i) === closing) depth++;
        else if (text(i) === opening && --depth === 0) break;
      }
      if (opening === "(" && text(i - 1) === ">" && text(i - 2) !== ">") {
        while (i > 0 && text(i) !== "<") i--;
      }
      if (!isOperandEnd(context, i - 1)) return i;
      i--;
    } else if (text(i - 1) === ".") i -= 2;
    else return i;
  }
}

/** The index past the operand that begins at `i`. */
function endOfOperand({ types, text }: Context, i: number): number {
  while (["-", "!", "~", "*", "&"].includes(text(i))) i++;
  if (text(i) === "(") i = types.after(i);
  else {
    i++;
    if (text(i) === "<" && /^(?:vec|mat|bitcast)/.test(text(i - 1))) i = types.after(i);
  }
  for (;;) {
    if (text(i) === "(" || text(i) === "[") i = types.after(i);
    else if (text(i) === ".") i += 2;
    else return i;
  }
}

/** Builtins that take a pointer to an element, which naga accepts. */
const POINTER_BUILTINS = /^(?:atomic[A-Z]\w*|arrayLength|workgroupUniformLoad)$/;

function checkElementPointer(context: Context, i: number): void {
  const { module, report, text } = context;
  if (text(i - 1) !== "(" && text(i - 1) !== ",") return;
  let target = i + 1;
  while (text(target) === "(") target++;
  if (text(target + 1) !== "[" && text(target + 1) !== ".") return;
  // Back to the bracket of the call that this is an argument of.
  let open = i - 1;
  for (let depth = 0; open >= 0; open--) {
    if (text(open) === ")" || text(open) === "]") depth++;
    else if (text(open) === "[") depth--;
    else if (text(open) === "(" && depth-- === 0) break;
  }
  const callee = text(open - 1);
  const own = module.functions.some(({ name }) => name === callee);
  if (!own && POINTER_BUILTINS.test(callee)) return;
  const message = `Cannot pass a pointer to an element of ${text(target)}: naga ends the process`;
  report(i, "pointer-argument", message);
}

function checkPrivateArrays(context: Context): void {
  const { module, types, report, text } = context;
  for (const [i, variable] of module.references) {
    if (!isPrivate(variable)) continue;
    let next = i + 1;
    for (let depth = arrayDepth(context, variable); depth > 0 && text(next) === "["; depth--) {
      const end = types.after(next);
      if (!isConstant(context, { start: next + 1, end: end - 1 })) {
        const message =
          `Cannot index the private array ${variable.name} by a variable: it is 4 to ` +
          `14 times slower, so write the elements out`;
        report(i, "private-array-index", message);
        break;
      }
      next = end;
    }
  }
}

/** Whether each invocation has a copy of its own, in registers if it can be. */
function isPrivate({ keyword, space, global }: Variable): boolean {
  if (keyword === "const" || keyword === "override") return false;
  return global ? space === "private" : space === "" || space === "function";
}

/** How many indexes lead from a variable to an element that is no array. */
function arrayDepth({ module, text }: Context, { type, init }: Variable): number {
  let at = type?.start ?? init?.start;
  let depth = 0;
  while (at !== undefined) {
    const alias = module.aliases.get(text(at));
    if (alias) at = alias.start;
    else if (text(at) !== "array") return depth;
    else {
      depth++;
      at = text(at + 1) === "<" ? at + 2 : undefined;
    }
  }
  return depth;
}

function isConstant({ module }: Context, { start, end }: Range): boolean {
  return module.tokens.slice(start, end).every(({ kind }, offset) => {
    if (kind !== "name") return true;
    const keyword = module.references.get(start + offset)?.keyword;
    return keyword === "const" || keyword === "override";
  });
}
