/**
 * Compiles kernels for GPUs of AMD, Intel and NVIDIA without having one, and prints what Mesa's compilers say of them
 * (`deno task kernels:compile [--target navi31,navi21] [--only gemm] [--each] [--asm FOLDER] [--save] [--steps]`); see
 * docs/kernel-compilers.md.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { alignColumns } from "./bench/history.ts";
import { findLoops, type Loop } from "./kernels/assembly.ts";
import type { CompiledKernel } from "./kernels/compile.ts";
import { NULL_GPUS, openNullGpu, type StartOnNullGpu } from "./kernels/null_gpu.ts";
import { compare, printRows, readTable, rowsOf, writeTable } from "./kernels/table.ts";
import { stepsTable } from "./kernels/steps.ts";
import { ROOT } from "./root.ts";

/** Where the committed table of a target lies. */
export function tablePath(target: string): URL {
  return new URL(`tools/kernels/tables/${target}.tsv`, ROOT);
}

/** Compiles the problems for a target; those alone whose row has one of the words, where there are any. */
export async function compileKernels(
  start: StartOnNullGpu,
  target: string,
  words: readonly string[],
  wantsAssembly: boolean,
): Promise<CompiledKernel[]> {
  const args = ["tools/kernels/compile.ts", ...words];
  const { success, code, stdout, stderr } = await start(target, args, { wantsAssembly }).output();
  const [lines, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  const kernels = lines!.split("\n").filter((line) => line !== "")
    .map((line): CompiledKernel => JSON.parse(line));
  if (success) return kernels;
  const last = kernels.at(-1)?.name;
  const when = last === undefined ? "before the first kernel" : `in the kernel after ${last}`;
  throw new Error(
    `Cannot compile kernels for ${target}: the process ended (code ${code}) ${when}. ${errors}`,
  );
}

/**
 * Writes assembly and WGSL of each kernel, and describes the loops of AMD's that multiply, alike ones once; those of case
 * tables only with `each`.
 */
async function writeAssembly(
  kernels: readonly CompiledKernel[],
  target: string,
  folder: string,
  each: boolean,
): Promise<string> {
  const path = join(folder, target);
  await Deno.mkdir(path, { recursive: true });
  const places = new Map<string, { cells: readonly string[]; loops: string[] }>();
  for (const [i, { name, kernel, wgsl, assembly = "", subgroupSize }] of kernels.entries()) {
    const file = `${kernel.split(" ")[0]!.replaceAll("/", "_")}.${i + 1}`;
    await Deno.writeTextFile(join(path, `${file}.wgsl`), `// ${kernel}: ${name}\n${wgsl}`);
    await Deno.writeTextFile(join(path, `${file}.asm`), `; ${kernel}: ${name}\n${assembly}`);
    if ((NULL_GPUS[target] ?? "amd") !== "amd" || !each && name.startsWith("case ")) continue;
    for (const loop of findLoops(assembly, target, subgroupSize)) {
      if (loop.products === 0) continue;
      const cells = cellsOf(loop);
      places.getOrInsertComputed(cells.join(), () => ({ cells, loops: [] }))
        .loops.push(`${file} ${loop.label}`);
    }
  }
  const kinds = ["FMA", "ALU", "LDS", "loads", "scratch", "waits", "branches", "scalar"];
  const head = [...kinds, "ALU clocks", "LDS clocks", "bound", ""];
  const table = [[...head, "loop"]];
  for (const { cells, loops: [first, ...others] } of places.values()) {
    const alike = others.length > 0 ? ` and ${others.length} more` : "";
    table.push([...cells, `${first}${alike}`]);
  }
  return alignColumns(table, [...head.keys()]).join("\n");
}

function cellsOf({ counts, clocks, bound, isInner }: Loop): string[] {
  const { fma, alu, ldsRead, load, scratch, wait, branch, scalar } = counts;
  const numbers = [fma, alu, ldsRead, load, scratch, wait, branch, scalar, clocks.alu, clocks.lds];
  return [...numbers.map(String), `${Math.round(bound * 100)} %`, isInner ? "inner" : "outer"];
}

/** Says how kernels differ from the committed table; gives the number of failures. */
async function report(
  kernels: readonly CompiledKernel[],
  target: string,
  isPart: boolean,
): Promise<number> {
  const text = await Deno.readTextFile(tablePath(target)).catch(() => undefined);
  if (text === undefined) return 0;
  const saved = readTable(text);
  const { driver } = kernels[0]!;
  if (saved.driver !== driver) {
    console.log(`Not compared: the committed table of ${target} is of ${saved.driver}`);
    return 0;
  }
  const { failures, notes, missing } = compare(saved, kernels);
  for (const line of failures) console.log(`WORSE  ${line}`);
  for (const line of notes) console.log(`note   ${line}`);
  if (!isPart) { for (const name of missing) console.log(`gone   ${name}`); }
  return failures.length;
}

async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      target: { type: "string", default: Object.keys(NULL_GPUS).join() },
      only: { type: "string" },
      asm: { type: "string" },
      each: { type: "boolean", default: false },
      save: { type: "boolean", default: false },
      steps: { type: "boolean", default: false },
    },
  });
  const { asm, each, save, only } = values;
  if (values.steps) {
    console.log(await stepsTable());
    return 0;
  }
  if (save && only !== undefined) throw new Error("Cannot save a part of a table: omit --only");
  const folder = await Deno.makeTempDir();
  let failures = 0;
  try {
    const start = await openNullGpu(folder);
    for (const target of values.target.split(",")) {
      const words = only?.split(",") ?? [];
      const kernels = await compileKernels(start, target, words, asm !== undefined);
      if (kernels.length === 0) throw new Error(`Cannot find a kernel with ${only} in its row`);
      const { driver } = kernels[0]!;
      const rows = rowsOf(kernels);
      const shown = each ? kernels.flatMap((kernel) => rowsOf([kernel])) : rows;
      console.log(`${target}, ${driver}, ${kernels.length} kernels\n${printRows(shown)}\n`);
      if (asm !== undefined) console.log(`${await writeAssembly(kernels, target, asm, each)}\n`);
      if (save) await Deno.writeTextFile(tablePath(target), writeTable(rows, driver));
      failures += await report(kernels, target, only !== undefined);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  return failures > 0 ? 1 : 0;
}

if (import.meta.main) {
  try {
    Deno.exit(await main(Deno.args));
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}
