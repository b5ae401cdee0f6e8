/** Kernels as files: a `.wgsl` file below this folder, specialised by parameters. README.md has the language. */
import type { Kernel } from "./kernel.ts";
import { parseShader, ShaderError } from "./directives.ts";
import { expand, type ParamValues, type ShaderFile } from "./expand.ts";
import { INCLUDES } from "./includes.ts";
import { describe, type Value } from "./names.ts";

const included = new Map<string, ShaderFile>();

/** A shared file of `includes.ts`, read once. */
function findInclude(path: string): ShaderFile | undefined {
  const source = INCLUDES[path];
  if (source === undefined) return undefined;
  let file = included.get(path);
  if (!file) included.set(path, file = { path, nodes: parseShader(path, source) });
  return file;
}

/** A kernel file; each specialisation of it is made once. */
export class KernelFile {
  /** Path of the kernel below `runtime/shaders/` without `.wgsl`, such as `rope/rope`. */
  readonly name: string;
  readonly #file: ShaderFile;
  readonly #kernels = new Map<string, Kernel>();

  /** @param source of the file, as its import gives it */
  constructor(name: string, source: string) {
    const path = `${name}.wgsl`;
    this.name = name;
    this.#file = { path, nodes: parseShader(path, source) };
  }

  /** The kernel for some values of the file's parameters; those with a default, and undefined ones, may be omitted. */
  kernel(values: ParamValues = {}): Kernel {
    const key = JSON.stringify(values);
    let kernel = this.#kernels.get(key);
    if (!kernel) this.#kernels.set(key, kernel = this.#specialise(values));
    return kernel;
  }

  #specialise(values: ParamValues): Kernel {
    const { specialisation, workgroupSize, ...parts } = expand(this.#file, values, findInclude);
    if (!workgroupSize) throw new ShaderError(this.#file.path, 1, "it has no //#workgroup");
    const words = [...specialisation].map(([name, value]) => nameOf(name, value));
    return { ...parts, workgroupSize, name: [this.name, ...words].join(" ") };
  }
}

/** The WGSL of a shared file, for what puts shaders together itself. */
export function expandInclude(path: string, values: ParamValues): string {
  const file = findInclude(path);
  if (!file) throw new ShaderError(path, 1, "includes.ts does not list it");
  return expand(file, values, findInclude).body;
}

/** A parameter that has not its default, in the name of a kernel. */
function nameOf(name: string, value: Value): string {
  const word = name.toLowerCase();
  if (typeof value === "boolean") return value ? word : `!${word}`;
  return `${word}=${typeof value === "object" ? value.join(",") : describe(value)}`;
}
