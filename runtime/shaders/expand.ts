/** Specialises a kernel file: runs its directives and gives plain WGSL with what the kernel is bound to. */
import type { BufferSlot, Kernel, ParamType } from "./kernel.ts";
import {
  type Branch,
  type Loop,
  type Node,
  type ParamDeclaration,
  ShaderError,
} from "./directives.ts";
import { evaluate, evaluateCount } from "./expression.ts";
import { BlockScope, describe, paste, piecesOf, type Scope, type Value } from "./names.ts";

/** Values of a kernel file's parameters by name. Words and choices are strings. */
export type ParamValues = Readonly<Record<string, Value | undefined>>;

/** A kernel file that was read. */
export interface ShaderFile {
  /** Below `runtime/shaders/`. */
  readonly path: string;
  readonly nodes: readonly Node[];
}

/** A specialised file. */
export interface Expansion extends Omit<Kernel, "name" | "workgroupSize"> {
  /** Left out where a file is no kernel by itself. */
  readonly workgroupSize?: readonly [number, number, number];
  /** The kernel's own parameters with their values, those that have their default left out. */
  readonly specialisation: ReadonlyMap<string, Value>;
}

/** Specialises a file. */
export function expand(
  file: ShaderFile,
  values: ParamValues,
  find: (path: string) => ShaderFile | undefined,
): Expansion {
  const expander = new Expander(values, find);
  expander.run(file, new BlockScope());
  return expander.finish(file);
}

class Expander {
  readonly #values: ParamValues;
  readonly #find: (path: string) => ShaderFile | undefined;
  readonly #declared = new Map<string, Value>();
  readonly #specialisation = new Map<string, Value>();
  readonly #body: string[] = [];
  readonly #buffers: BufferSlot[] = [];
  readonly #params: Record<string, ParamType> = {};
  #workgroupSize: [number, number, number] | undefined;
  #subgroupSize: number | undefined;
  #usesF16 = false;

  constructor(values: ParamValues, find: (path: string) => ShaderFile | undefined) {
    this.#values = values;
    this.#find = find;
  }

  run({ path, nodes }: ShaderFile, scope: BlockScope): void {
    for (const node of nodes) {
      try {
        this.#node(node, path, scope);
      } catch (error) {
        if (error instanceof SyntaxError) throw new ShaderError(path, node.line, error.message);
        throw error;
      }
    }
  }

  finish({ path }: ShaderFile): Expansion {
    for (const name of Object.keys(this.#values)) {
      if (this.#values[name] === undefined || this.#declared.has(name)) continue;
      const known = [...this.#declared.keys()].join(", ");
      throw new ShaderError(path, 1, `it has no parameter ${name}; it has ${known || "none"}`);
    }
    const body = this.#body.join("\n");
    return {
      body,
      buffers: this.#buffers,
      params: this.#params,
      specialisation: this.#specialisation,
      ...(this.#workgroupSize && { workgroupSize: this.#workgroupSize }),
      ...(this.#usesF16 && { usesF16: true }),
      ...(this.#subgroupSize !== undefined && { subgroupSize: this.#subgroupSize }),
      ...(/\bfn kernel\([^)]*\bsubgroup: u32/.test(body) && { usesSubgroupId: true }),
    };
  }

  #node(node: Node, path: string, scope: BlockScope): void {
    switch (node.kind) {
      case "text":
        this.#body.push(paste(node.pieces, scope));
        return;
      case "param":
        scope.set(node.name, this.#param(node, scope));
        return;
      case "let":
        scope.set(node.name, evaluate(node.value, scope));
        return;
      case "if": {
        const taken = node.branches.find((branch) => this.#holds(branch, path, scope));
        if (taken) this.run({ path, nodes: taken.body }, scope);
        return;
      }
      case "for":
        this.#loop(node.loops, (inner) => this.run({ path, nodes: node.body }, inner), scope);
        return;
      case "include":
        this.#include(node, scope);
        return;
      case "buffer": {
        const width = evaluate(node.width, scope);
        if (width !== 1 && width !== 4) {
          throw new SyntaxError(`"${node.width}" is ${describe(width)}, a width is 1 or 4`);
        }
        this.#buffers.push({
          name: paste(node.name, scope),
          access: node.access,
          width,
          ...(node.isExact && { isExact: true }),
        });
        return;
      }
      case "uniform":
        this.#params[paste(node.name, scope)] = node.type;
        return;
      case "workgroup": {
        const [x, y, z] = node.sizes.map((size) => evaluateCount(size, scope));
        this.#workgroupSize = [x!, y!, z!];
        return;
      }
      case "subgroup_size":
        this.#subgroupSize = evaluateCount(node.size, scope);
        return;
      case "enable":
        this.#usesF16 = true;
        return;
    }
  }

  /** What the including file calls by this name, else the kernel's own parameter. */
  #param(declaration: ParamDeclaration, scope: Scope): Value {
    const { name, fallback } = declaration;
    const inherited = scope.get(name);
    if (inherited !== undefined) {
      checkType(declaration, inherited);
      return inherited;
    }
    const byDefault = fallback === undefined ? undefined : evaluate(fallback, scope);
    const value = this.#values[name] ?? byDefault;
    if (value === undefined) throw new SyntaxError(`parameter ${name} is not given`);
    checkType(declaration, value);
    this.#declared.set(name, value);
    if (!isSame(value, byDefault)) this.#specialisation.set(name, value);
    return value;
  }

  #holds({ condition, line }: Branch, path: string, scope: Scope): boolean {
    if (condition === undefined) return true;
    try {
      const value = evaluate(condition, scope);
      if (typeof value === "boolean") return value;
      throw new SyntaxError(`"${condition}" is ${describe(value)}, true or false is needed`);
    } catch (error) {
      if (error instanceof SyntaxError) throw new ShaderError(path, line, error.message);
      throw error;
    }
  }

  #loop(
    [loop, ...rest]: readonly Loop[],
    body: (scope: BlockScope) => void,
    scope: BlockScope,
  ): void {
    for (const value of valuesOf(loop!, scope)) {
      const inner = new BlockScope(scope).set(loop!.name, value);
      if (rest.length > 0) this.#loop(rest, body, inner);
      else body(inner);
    }
  }

  #include(node: Extract<Node, { kind: "include" }>, scope: BlockScope): void {
    const file = this.#find(node.path);
    if (!file) {
      throw new SyntaxError(
        `there is no ${node.path} to include; shared files are listed in includes.ts`,
      );
    }
    const inner = new BlockScope(scope);
    const declarations = new Map(paramsOf(file.nodes).map((param) => [param.name, param]));
    for (const [name, text] of node.values) {
      const declaration = declarations.get(name);
      if (!declaration) throw new SyntaxError(`${node.path} has no parameter ${name}`);
      const isText = declaration.type === "wgsl" || declaration.type === "word";
      inner.set(name, isText ? textValue(text, scope) : evaluate(text, scope));
    }
    this.run(file, inner);
    // As if the file's lines stood here: only what this line set ends with it.
    for (const [name, value] of inner.own()) if (!node.values.has(name)) scope.set(name, value);
  }
}

function* valuesOf(loop: Loop, scope: Scope): Generator<Value> {
  if (loop.words) {
    yield* loop.words;
  } else if (loop.list !== undefined) {
    const list = scope.get(loop.list);
    if (typeof list !== "object") throw new SyntaxError(`${loop.list} is no list of words`);
    yield* list;
  } else {
    const to = evaluateCount(loop.to!, scope);
    for (let i = evaluateCount(loop.from!, scope); i < to; i++) yield i;
  }
}

/** Parameters of a file, those in blocks too. */
function paramsOf(nodes: readonly Node[]): ParamDeclaration[] {
  return nodes.flatMap((node) => {
    if (node.kind === "param") return [node];
    if (node.kind === "if") return node.branches.flatMap(({ body }) => paramsOf(body));
    return node.kind === "for" ? paramsOf(node.body) : [];
  });
}

/** A piece of WGSL given to an included file, with the names in it replaced. */
function textValue(text: string, scope: Scope): Value {
  return /^".*"$/.test(text) ? evaluate(text, scope) : paste(piecesOf(text), scope);
}

function checkType({ name, type }: ParamDeclaration, value: Value): void {
  const fits = typeof type === "object"
    ? typeof value === "string" && type.includes(value)
    : type === "bool"
    ? typeof value === "boolean"
    : type === "u32"
    ? typeof value === "number" && Number.isInteger(value) && value >= 0
    : type === "words"
    ? typeof value === "object" && value.every(isWord)
    : typeof value === "string" && (type === "wgsl" || isWord(value));
  if (fits) return;
  const needed = typeof type === "object" ? `one of ${type.join(", ")}` : type;
  throw new SyntaxError(`parameter ${name} is ${describe(value)}, it must be ${needed}`);
}

function isWord(text: string): boolean {
  return /^[A-Za-z_]\w*$/.test(text);
}

function isSame(value: Value, other: Value | undefined): boolean {
  return typeof value === "object" && typeof other === "object"
    ? value.join() === other.join()
    : value === other;
}
