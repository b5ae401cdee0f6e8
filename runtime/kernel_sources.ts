/** The expanded WGSL of kernels, for whoever wants to read or check it: needs no GPU. */
import { join, writeText } from "../platform/mod.ts";
import { traceCase, UnsupportedCase } from "./conformance.ts";
import type { KernelCode } from "./device/compile_helpers.ts";
import { OP_SUITES } from "./ops/registry.ts";
import { kernelCode } from "./program/compile.ts";
import type { Target } from "./target.ts";

export interface KernelSource extends KernelCode {
  /** Name of the op whose case led to it; the op may use kernels of others. */
  readonly op: string;
  /** The variant that was forced; empty for ops with a single way. */
  readonly variant: string;
  /** Adapter on which the variant was raced; empty where nothing of its class has raced it. */
  readonly racedOn: string;
  /** Variants that the rule and races choose from for the case, the rule's choice first; none where there is one way. */
  readonly candidates: readonly string[];
  readonly case: string;
}

/** Every kernel that the ops' case tables lead to on a target, variant by variant; each text once. */
export function* kernelSources(target: Target): Generator<KernelSource> {
  const seen = new Set<string>();
  for (const { op, variants, cases, operands } of OP_SUITES) {
    for (const variant of variants) {
      let racedOn = "";
      let candidates: readonly string[] = [];
      const forced: Target = {
        ...target,
        onChoice: (choice) => {
          if (choice.op !== op) return;
          racedOn = choice.racedOn ?? "";
          candidates = choice.candidates;
        },
        ...(operands && { operands }),
        ...(variant && { forcedVariants: { [op]: variant } }),
      };
      for (const testCase of cases) {
        for (const dispatch of dispatchesOf(testCase, forced)) {
          const code = kernelCode(dispatch, forced);
          if (seen.has(code.wgsl)) continue;
          seen.add(code.wgsl);
          yield { op, variant, racedOn, candidates, case: testCase.name, ...code };
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
    const { op, variant, label, wgsl } = source;
    const path = join(folder, op, variant);
    const name = label.split(" ")[0]!.replaceAll("/", "_");
    const count = (counts.get(join(path, name)) ?? 0) + 1;
    counts.set(join(path, name), count);
    await writeText(join(path, `${name}.${count}.wgsl`), `${headOf(source)}\n${wgsl}`);
    files++;
  }
  return files;
}

function headOf({ op, variant, racedOn, case: name, label }: KernelSource): string {
  const lines = [
    `// ${label}`,
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
