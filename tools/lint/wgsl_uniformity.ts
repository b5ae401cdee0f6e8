/**
 * Finds barriers that not every invocation of a workgroup may reach.
 *
 * A value *varies* where invocations of one workgroup may differ in it: what comes from their ids,
 * from memory that they write, from subgroups. Control flow that depends on such a value is not
 * uniform, and neither is what follows a return, break or continue inside of it. A variable that
 * ever holds a varying value counts as varying throughout, so this is stricter than the standard's
 * analysis and never laxer.
 */

import type { Range, Statement, Variable, WgslFunction, WgslModule } from "./wgsl_tree.ts";
import { walk } from "./wgsl_tree.ts";
import type { ScalarTypes } from "./wgsl_types.ts";

/** A call in control flow that is not uniform. */
export interface DivergentCall {
  line: number;
  callee: string;
}

const UNIFORM_BUILTINS = new Set([
  "workgroup_id",
  "num_workgroups",
  "subgroup_size",
  "num_subgroups",
]);
/** Builtin functions that the whole workgroup, or subgroup, must call together. */
const COLLECTIVE =
  /^(?:(?:workgroup|storage|texture)Barrier|workgroupUniformLoad|subgroup[A-Z]\w*|quad[A-Z]\w*)$/;
const VARYING_RESULT = /^(?:atomic|subgroup|quad)[A-Z]\w*$/;
const UNIFORM_RESULT = new Set(["workgroupUniformLoad", "arrayLength"]);

/** Where a return, break or continue leads; `lost` once only some invocations went there. */
interface Exit {
  lost: boolean;
}

interface Exits {
  function: Exit;
  break: Exit;
  continue: Exit;
}

/** Every call that needs the whole workgroup and stands where it may not be whole. */
export function divergentCalls(module: WgslModule, types: ScalarTypes): DivergentCall[] {
  return new Uniformity(module, types).run();
}

class Uniformity {
  readonly #module: WgslModule;
  readonly #types: ScalarTypes;
  readonly #functions: Map<string, WgslFunction>;
  readonly #varying = new Set<Variable>();
  readonly #varyingResults = new Set<string>();
  /** Functions of the shader that hold a collective call, at any depth. */
  readonly #collective = new Set<string>();
  /** By the token of the callee. */
  readonly #found = new Map<number, DivergentCall>();

  constructor(module: WgslModule, types: ScalarTypes) {
    this.#module = module;
    this.#types = types;
    this.#functions = new Map(module.functions.map((f) => [f.name, f]));
    for (const variable of module.globals) {
      const shared = variable.space === "workgroup" || variable.writable;
      if (shared) this.#varying.add(variable);
    }
    for (const { params } of module.functions) {
      for (const param of params) {
        if (param.builtin && !UNIFORM_BUILTINS.has(param.builtin)) this.#varying.add(param);
      }
    }
  }

  run(): DivergentCall[] {
    this.#findCollective();
    // Each round can only add to what varies, so the last one, which adds nothing, is the answer.
    for (let before = -1; before !== this.#size();) {
      before = this.#size();
      for (const fn of this.#module.functions) {
        const exit = () => ({ lost: false });
        const exits = { function: exit(), break: exit(), continue: exit() };
        this.#visitAll(fn.body, true, exits, fn);
      }
    }
    return [...this.#found.values()];
  }

  #size(): number {
    return this.#varying.size + this.#varyingResults.size + this.#found.size;
  }

  #text(i: number): string {
    return this.#module.tokens[i]?.text ?? "";
  }

  #findCollective(): void {
    for (let before = -1; before !== this.#collective.size;) {
      before = this.#collective.size;
      for (const fn of this.#module.functions) {
        const calls = [...walk(fn.body)].flatMap(ranges).flatMap((range) => this.#calls(range));
        if (calls.some((i) => this.#isCollective(this.#text(i)))) this.#collective.add(fn.name);
      }
    }
  }

  #isCollective(name: string): boolean {
    return this.#functions.has(name) ? this.#collective.has(name) : COLLECTIVE.test(name);
  }

  /** The tokens in a range that name a called function. */
  #calls({ start, end }: Range): number[] {
    const calls: number[] = [];
    for (let i = start; i < end; i++) {
      if (this.#module.tokens[i]!.kind === "name" && this.#text(i + 1) === "(") calls.push(i);
    }
    return calls;
  }

  #isVarying({ start, end }: Range): boolean {
    for (let i = start; i < end; i++) {
      const { kind, text } = this.#module.tokens[i]!;
      if (kind !== "name" || this.#text(i - 1) === ".") continue;
      if (this.#text(i + 1) === "(") {
        if (
          this.#functions.has(text) ? this.#varyingResults.has(text) : VARYING_RESULT.test(text)
        ) {
          return true;
        }
        if (UNIFORM_RESULT.has(text)) i = this.#types.after(i + 1) - 1;
        continue;
      }
      const variable = this.#module.references.get(i);
      if (variable && (this.#varying.has(variable) || this.#isVaryingMember(variable, i))) {
        return true;
      }
    }
    return false;
  }

  /** Whether a use of an entry point's struct of builtins takes one that varies. */
  #isVaryingMember(variable: Variable, i: number): boolean {
    if (variable.keyword !== "param" || !variable.type) return false;
    const members = this.#module.structs.get(this.#text(variable.type.start)) ?? [];
    const used = this.#text(i + 1) === "."
      ? members.filter(({ name }) => name === this.#text(i + 2))
      : members;
    return used.some(({ builtin }) => builtin !== undefined && !UNIFORM_BUILTINS.has(builtin));
  }

  /** Notes collective calls where flow is not uniform, and parameters that get a varying value. */
  #visitCalls(range: Range, uniform: boolean): void {
    for (const i of this.#calls(range)) {
      const callee = this.#text(i);
      if (!uniform && this.#isCollective(callee)) {
        this.#found.set(i, { line: this.#module.tokens[i]!.line, callee });
      }
      const params = this.#functions.get(callee)?.params ?? [];
      for (const [index, arg] of this.#arguments(i + 1).entries()) {
        const param = params[index];
        if (param && this.#isVarying(arg)) this.#varying.add(param);
      }
    }
  }

  /** The arguments of the call whose bracket opens at `open`. */
  #arguments(open: number): Range[] {
    const end = this.#types.after(open) - 1;
    const args: Range[] = [];
    let start = open + 1;
    for (let i = start; i < end; i++) {
      const opens = this.#text(i) === "(" || this.#text(i) === "[";
      const list = this.#text(i) === "<" && /^(?:vec|mat|array|bitcast)/.test(this.#text(i - 1));
      if (opens || list) i = this.#types.after(i) - 1;
      else if (this.#text(i) === ",") {
        args.push({ start, end: i });
        start = i + 1;
      }
    }
    return start < end ? [...args, { start, end }] : args;
  }

  /** Goes through statements in order; gives whether flow is still uniform after them. */
  #visitAll(body: Statement[], uniform: boolean, exits: Exits, fn: WgslFunction): boolean {
    for (const statement of body) uniform = this.#visit(statement, uniform, exits, fn);
    return uniform;
  }

  #visit(statement: Statement, uniform: boolean, exits: Exits, fn: WgslFunction): boolean {
    for (const range of ranges(statement)) this.#visitCalls(range, uniform);
    const whole = () => !exits.function.lost && !exits.break.lost && !exits.continue.lost;
    switch (statement.kind) {
      case "block":
        return this.#visitAll(statement.body, uniform, exits, fn);
      case "declare":
        if (statement.variable.init && this.#isVarying(statement.variable.init)) {
          this.#varying.add(statement.variable);
        }
        return uniform;
      case "assign":
        this.#assign(statement, uniform);
        return uniform;
      case "call":
        return uniform;
      case "return":
        if (!uniform) exits.function.lost = true;
        if (!uniform || (statement.value && this.#isVarying(statement.value))) {
          this.#varyingResults.add(fn.name);
        }
        return uniform;
      case "break":
      case "continue": {
        const splits = statement.condition && this.#isVarying(statement.condition);
        if (!uniform || splits) exits[statement.kind].lost = true;
        return uniform;
      }
      case "if": {
        const inside = uniform && !this.#isVarying(statement.condition);
        this.#visit(statement.then, inside, exits, fn);
        if (statement.otherwise) this.#visit(statement.otherwise, inside, exits, fn);
        return uniform && whole();
      }
      case "switch": {
        const inside = uniform && !this.#isVarying(statement.selector);
        const own = { ...exits, break: { lost: false } };
        for (const each of statement.cases) this.#visit(each, inside, own, fn);
        return uniform && whole();
      }
      case "loop":
        this.#visitLoop(statement, uniform, exits, fn);
        return uniform && whole();
    }
  }

  /** Turns after one that only some invocations left, or went on from early, are not uniform. */
  #visitLoop(
    loop: Extract<Statement, { kind: "loop" }>,
    uniform: boolean,
    exits: Exits,
    fn: WgslFunction,
  ): void {
    if (loop.init) this.#visit(loop.init, uniform, exits, fn);
    const splits = loop.condition !== undefined && this.#isVarying(loop.condition);
    const own: Exits = { ...exits, break: { lost: splits }, continue: { lost: false } };
    const lost = () => own.break.lost || own.continue.lost || own.function.lost;
    for (let again = true; again;) {
      const inside = uniform && !lost();
      const after = this.#visit(loop.body, inside, own, fn);
      if (loop.update) this.#visit(loop.update, after, own, fn);
      again = inside && lost();
    }
  }

  #assign({ target, value }: Extract<Statement, { kind: "assign" }>, uniform: boolean): void {
    const varies = !uniform || (value && this.#isVarying(value)) || this.#isVarying(target);
    if (!varies) return;
    for (let i = target.start; i < target.end; i++) {
      const variable = this.#module.references.get(i);
      if (!variable) continue;
      this.#varying.add(variable);
      return;
    }
  }
}

/** The expressions of a statement itself, without those of the statements in it. */
function ranges(statement: Statement): Range[] {
  switch (statement.kind) {
    case "declare":
      return statement.variable.init ? [statement.variable.init] : [];
    case "assign":
      return statement.value ? [statement.target, statement.value] : [statement.target];
    case "if":
      return [statement.condition];
    case "loop":
    case "break":
    case "continue":
      return statement.condition ? [statement.condition] : [];
    case "switch":
      return [statement.selector];
    case "call":
      return [statement.value];
    case "return":
      return statement.value ? [statement.value] : [];
    case "block":
      return [];
  }
}
