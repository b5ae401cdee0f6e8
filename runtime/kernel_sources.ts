/** The expanded WGSL of kernels, for whoever wants to read or check it: needs no GPU. */
import { join } from "node:path";
import { traceCase, UnsupportedCase } from "./conformance.ts";
import { OP_SUITES } from "./ops/registry.ts";
import { kernelCode } from "./program/compile.ts";
import type { Target } from "./target.ts";

interface KernelSource {
  /** Name of the op whose case led to it; the op may use kernels of others. */
  readonly op: string;
  /** The variant that was forced; empty for ops with a single way. */
  readonly variant: string;
  /** Adapter on which the variant was raced; empty where nothing of its class has raced it. */
  readonly racedOn: string;
  readonly case: string;
  /** Name of the kernel: its file and parameters. */
  readonly kernel: string;
  readonly wgsl: string;
}

/** Every kernel that the ops' case tables lead to on a target, variant by variant; each text once. */
export function* kernelSources(target: Target): Generator<KernelSource> {
  const seen = new Set<string>();
  for (const { op, variants, cases, operands } of OP_SUITES) {
    for (const variant of variants) {
      let racedOn = "";
      const forced: Target = {
        ...target,
        onChoice: (choice) => {
          if (choice.op === op) racedOn = choice.racedOn ?? "";
        },
        ...(operands && { operands }),
        ...(variant && { forcedVariants: { [op]: variant } }),
      };
      for (const testCase of cases) {
        for (const dispatch of dispatchesOf(testCase, forced)) {
          const wgsl = kernelCode(dispatch, forced).wgsl;
          if (seen.has(wgsl)) continue;
          seen.add(wgsl);
          const kernel = dispatch.kernel.name;
          yield { op, variant, racedOn, case: testCase.name, kernel, wgsl };
        }
      }
    }
  }
}

/** Writes every kernel that the case tables lead to on a target: a folder for each op, and in it for each variant. */
export async function dumpKernels(target: Target, folder: string): Promise<number> {
  const counts = new Map<string, number>();
  let files = 0;
  for (const source of kernelSources(target)) {
    const { op, variant, kernel, wgsl } = source;
    const path = join(folder, op, variant);
    await Deno.mkdir(path, { recursive: true });
    const name = kernel.split(" ")[0]!.replaceAll("/", "_");
    const count = (counts.get(join(path, name)) ?? 0) + 1;
    counts.set(join(path, name), count);
    await Deno.writeTextFile(join(path, `${name}.${count}.wgsl`), `${headOf(source)}\n${wgsl}`);
    files++;
  }
  return files;
}

function headOf({ op, variant, racedOn, case: name, kernel }: KernelSource): string {
  const lines = [
    `// ${kernel}`,
    `// First case that leads to it: ${op}, ${name}`,
    ...(variant === "" ? [] : [
      `// Variant "${variant}": raced on ${racedOn || "no hardware of its class yet"}`,
    ]),
  ];
  return lines.join("\n");
}

/** The dispatches of a case; none where the target does not take it. */
function dispatchesOf(testCase: Parameters<typeof traceCase>[0], target: Target) {
  try {
    return traceCase(testCase, target).graph.dispatches;
  } catch (error) {
    if (error instanceof UnsupportedCase) return [];
    throw error;
  }
}
