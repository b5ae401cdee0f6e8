/** Runs on a GPU that is not there: compiles the problems for it, and prints what the compiler says, a line of JSON each. */
import { openDevice } from "../../runtime/mod.ts";
import { problemsFor } from "./problems.ts";

/** What the layer writes of a pipeline. */
interface Compiled {
  /** Name and version of the driver. */
  readonly driver: string;
  /** Invocations of a wave. */
  readonly subgroupSize: number;
  readonly statistics: Readonly<Record<string, number>>;
  readonly assembly?: string;
}

/** A kernel and what came of it. */
export interface CompiledKernel extends Compiled {
  readonly name: string;
  readonly others: readonly string[];
  readonly from: string;
  readonly isChosen: boolean;
  /** File and parameters. */
  readonly kernel: string;
  /** Where the assembly is wanted. */
  readonly wgsl?: string;
}

if (import.meta.main) {
  const wanted = Deno.args;
  const out = Deno.env.get("DENOISE_LAYER_OUT")!;
  const device = await openDevice();
  // A device compiles a text once: what the layer wrote of it is not there again.
  const known = new Map<string, Compiled>();
  for await (const { code, ...problem } of problemsFor(device.target)) {
    const text = `${problem.name} ${problem.from} ${code.label}`;
    if (wanted.length > 0 && !wanted.some((word) => text.includes(word))) continue;
    const { label: kernel, wgsl } = code;
    if (!known.has(wgsl)) {
      await device.guarded(() => device.pipeline(code));
      known.set(wgsl, JSON.parse(await Deno.readTextFile(out)));
    }
    const compiled = known.get(wgsl)!;
    const isRead = compiled.assembly !== undefined;
    const row: CompiledKernel = { ...problem, ...compiled, kernel, ...(isRead && { wgsl }) };
    console.log(JSON.stringify(row));
  }
  // Closing a device waits for a GPU.
  Deno.exit(0);
}
