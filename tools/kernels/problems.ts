/** What is compiled: the kernels that the rules choose for real models, and all variants in the case tables of the ops. */
import { kernelSources } from "../../runtime/kernel_sources.ts";
import type { Dispatch, KernelCode, Target } from "../../runtime/mod.ts";
import { kernelCode } from "../../runtime/program/compile.ts";
import { modelPhases } from "./models.ts";

/** A kernel, and the problems that it is for. */
export interface Problem {
  readonly code: KernelCode;
  /** Names it in tables, whatever kernel is chosen for it: of several problems of models, that of most work. */
  readonly name: string;
  /** Names of the other problems. */
  readonly others: readonly string[];
  /** The model, or the case. */
  readonly from: string;
  /** Whether the rules choose this kernel for it, on this target. */
  readonly isChosen: boolean;
}

/** Kernels with less than this share of a phase of a request (encode, denoise, decode) are no rows. */
const LEAST_SHARE = 0.005;

/** Arithmetic operations that a GPU does while it moves a byte, about. */
const FLOPS_PER_BYTE = 40;

/** Where a result lies in a wider tensor, which makes a text of its own, but no other code. */
const PLACE = / \w+=\d+\+\d+\/\d+/g;

/** All problems for a target. */
export async function* problemsFor(target: Target): AsyncGenerator<Problem> {
  yield* await modelProblems(target);
  for (const { op, variant, candidates, case: from, ...code } of kernelSources(target)) {
    // Variants for software adapters race with none of these.
    if (variant !== "" && !candidates.includes(variant)) continue;
    const [file] = code.label.split(" ");
    const name = ["case", op, variant, file].filter((word) => word !== "").join(" ");
    yield { code, name, others: [], from, isChosen: variant === (candidates[0] ?? "") };
  }
}

/** Dispatches of one kernel in all models. */
interface Use {
  readonly work: Map<string, number>;
  from: string;
  dispatch: Dispatch;
}

/** The kernels of models, each once. */
export async function modelProblems(target: Target): Promise<Problem[]> {
  const uses = new Map<string, Use>();
  const kept = new Set<string>();
  for (const [from, dispatches] of await modelPhases(target)) {
    const shares = new Map<string, number>();
    const total = dispatches.reduce((sum, dispatch) => sum + workOf(dispatch), 0);
    for (const dispatch of dispatches) {
      const { kernel, tensors } = dispatch;
      const key = `${kernel.name.replace(PLACE, "")} ${tensors.map(({ dtype }) => dtype)}`;
      const work = workOf(dispatch);
      const use = uses.getOrInsertComputed(key, () => ({ work: new Map(), from, dispatch }));
      if (work > workOf(use.dispatch)) Object.assign(use, { from, dispatch });
      use.work.set(problemName(dispatch), work);
      shares.set(key, (shares.get(key) ?? 0) + work / total);
    }
    for (const [key, share] of shares) if (share >= LEAST_SHARE) kept.add(key);
  }
  return [...uses].filter(([key]) => kept.has(key)).map(([, { work, from, dispatch }]) => {
    const name = problemName(dispatch);
    const others = [...work.keys()].filter((other) => other !== name);
    return { code: kernelCode(dispatch, target), name, others, from, isChosen: true };
  });
}

/** Bytes that take as long as a dispatch. */
function workOf({ flops, bytes }: Dispatch): number {
  return Math.max(flops / FLOPS_PER_BYTE, bytes);
}

/** The folder of the kernel, and its tensors. */
function problemName({ kernel, tensors }: Dispatch): string {
  const described = tensors.map(({ dtype, shape }, i) => {
    const sizes = shape.filter((size, axis) => size > 1 || axis === shape.length - 1);
    return `${kernel.buffers[i]!.name} ${dtype}[${sizes.join("x")}]`;
  });
  const own = described.filter((_, i) => kernel.buffers[i]!.access !== "count");
  return `${kernel.name.split("/")[0]} ${own.join(" ")}`;
}
