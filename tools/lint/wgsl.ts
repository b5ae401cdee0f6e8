/**
 * Traps of WGSL on the front ends and drivers that denoise runs on, found in the text.
 *
 * Some are faults of naga 29 (Deno 2.9): a variable without an initializer keeps its value between
 * turns of a loop, a pointer to an element as an argument ends the process, `%` of signed numbers
 * is wrong on some GPUs. Others pass there and fail elsewhere: tanh of large numbers. The rest are
 * rules of the house. Whether the text is WGSL at all, naga and Tint say, and Tint which barriers
 * some invocations miss.
 */

import { Scalars } from "./wgsl_scalars.ts";
import { type Token, tokenizeWgsl } from "./wgsl_tokens.ts";

export type WgslRule =
  | "var-init"
  | "pointer-argument"
  | "f16-bitcast"
  | "signed-remainder"
  | "enable-subgroups"
  | "private-array"
  | "global-invocation-id"
  | "tanh-clamp"
  | "swizzle-assignment";

interface WgslProblem {
  /** Counted from 1. */
  line: number;
  rule: WgslRule;
  message: string;
}

interface Context {
  tokens: readonly Token[];
  scalars: Scalars;
  report(token: number, rule: WgslRule, message: string): void;
  text(i: number): string;
}

/** The traps in a whole shader, by line. */
export function lintWgsl(source: string): WgslProblem[] {
  const tokens = tokenizeWgsl(source);
  const problems: WgslProblem[] = [];
  checkTokens({
    tokens,
    scalars: new Scalars(tokens),
    report: (token, rule, message) => problems.push({ line: tokens[token]!.line, rule, message }),
    text: (i) => tokens[i]?.text ?? "",
  });
  return problems.sort((a, b) => a.line - b.line);
}

function checkTokens(context: Context): void {
  const { tokens, scalars, report, text } = context;
  for (let i = 0; i < tokens.length; i++) {
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
      case "var":
        checkInitializer(context, i);
        break;
      case "ptr":
        report(i, "pointer-argument", "Cannot pass by pointer: pass and return values");
        break;
      case "array":
        if (scalars.isInFunction(i) || text(i - 1) === ":" && text(i - 4) === "private") {
          report(
            i,
            "private-array",
            "Cannot keep an array per invocation: indexed by a variable it is 4 to 14 times slower, so write the " +
              "elements out",
          );
        }
        break;
      case "=":
      case "+=":
      case "-=":
      case "*=":
      case "/=":
        checkSwizzle(context, i - 1);
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

/** `var name: type;` in a function. */
function checkInitializer({ scalars, report, text }: Context, i: number): void {
  if (text(i + 1) === "<") return;
  let end = i + 1;
  while (text(end) !== "=" && text(end) !== ";" && text(end) !== "") end++;
  if (text(end) === "=" || !scalars.isInFunction(i)) return;
  const name = text(i + 1);
  report(
    i,
    "var-init",
    `Cannot leave ${name} without an initializer: in a loop it keeps its value`,
  );
}

function checkSwizzle({ report, text }: Context, last: number): void {
  const isSwizzle = /^(?:[xyzw]{2,4}|[rgba]{2,4})$/.test(text(last)) && text(last - 1) === ".";
  if (!isSwizzle) return;
  report(
    last,
    "swizzle-assignment",
    `Cannot assign to .${text(last)}: assign the vector`,
  );
}

function checkTanh({ scalars, report, text }: Context, i: number): void {
  if (text(i + 1) !== "(") return;
  const clamped = text(i + 2) === "clamp" && text(i + 3) === "(" &&
    scalars.after(i + 3) === scalars.after(i + 1) - 1;
  if (clamped) return;
  report(i, "tanh-clamp", "Cannot take tanh of any number: some drivers give NaN, so clamp first");
}

/** Casts from f16, which the specification knows, naga refuses by itself. */
function checkBitcast({ scalars, report, text }: Context, i: number): void {
  if (text(i + 1) !== "<") return;
  const open = scalars.after(i + 1);
  const isFromHalf = scalars.of({ start: open + 1, end: scalars.after(open) - 1 }) === "f16";
  if (scalars.ofType({ start: i + 1, end: open }) !== "f16" && !isFromHalf) return;
  report(
    i,
    "f16-bitcast",
    "Cannot bitcast f16: naga reads it wrongly, so use unpack2x16float and pack2x16float",
  );
}

function checkRemainder(context: Context, i: number): void {
  const { scalars, report, text } = context;
  const start = startOfOperand(context, i);
  const left = scalars.of({ start, end: i });
  const right = scalars.of({ start: i + 1, end: endOfOperand(context, i + 1) });
  const negative = left === "int" && text(start - 1) === "-" && !isOperandEnd(context, start - 2);
  if (left !== "i32" && right !== "i32" && !negative) return;
  const message = `Cannot take ${text(i)} of i32: some GPUs give wrong remainders of negative ` +
    `numbers, so use u32 or a - b * (a / b)`;
  report(i, "signed-remainder", message);
}

/** Whether a token can end an operand, so that an operator after it takes two. */
function isOperandEnd({ tokens, text }: Context, i: number): boolean {
  const kind = tokens[i]?.kind;
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
function endOfOperand({ scalars, text }: Context, i: number): number {
  while (["-", "!", "~", "*", "&"].includes(text(i))) i++;
  if (text(i) === "(") i = scalars.after(i);
  else {
    i++;
    if (text(i) === "<" && /^(?:vec|mat|bitcast)/.test(text(i - 1))) i = scalars.after(i);
  }
  for (;;) {
    if (text(i) === "(" || text(i) === "[") i = scalars.after(i);
    else if (text(i) === ".") i += 2;
    else return i;
  }
}

/** Builtins that take a pointer to an element, which naga accepts. */
const POINTER_BUILTINS = /^(?:atomic[A-Z]\w*|arrayLength|workgroupUniformLoad)$/;

function checkElementPointer(context: Context, i: number): void {
  const { tokens, report, text } = context;
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
  const own = tokens.some(({ text }, j) => text === "fn" && tokens[j + 1]?.text === callee);
  if (!own && POINTER_BUILTINS.test(callee)) return;
  const message = `Cannot pass a pointer to an element of ${text(target)}: naga ends the process`;
  report(i, "pointer-argument", message);
}
