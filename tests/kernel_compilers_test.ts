/** Kernels through the compilers of AMD's, Intel's and NVIDIA's GPUs, without a card: what the rules choose spills nothing, and nothing got worse than the committed tables say. */
import assert from "node:assert/strict";
import { compileKernels, tablePath } from "../tools/compile_kernels.ts";
import {
  NoCompilerError,
  NULL_GPUS,
  openNullGpu,
  type StartOnNullGpu,
} from "../tools/kernels/null_gpu.ts";
import { compare, readTable, rowsOf } from "../tools/kernels/table.ts";

const folder = await Deno.makeTempDir();
const start = Deno.env.has("DENOISE_SLOW") ? await openOrExplain() : "with DENOISE_SLOW";

async function openOrExplain(): Promise<StartOnNullGpu | string> {
  try {
    return await openNullGpu(folder);
  } catch (error) {
    if (error instanceof NoCompilerError) return error.message;
    throw error;
  }
}

for (const target of Object.keys(NULL_GPUS)) {
  Deno.test({
    name: `the compiler of ${target} spills nothing of what is chosen, and makes nothing worse${
      typeof start === "string" ? `: ${start}` : ""
    }`,
    ignore: typeof start === "string",
    fn: async () => {
      const kernels = await compileKernels(start as StartOnNullGpu, target, [], false);
      const spilled = rowsOf(kernels)
        .filter(({ isChosen, figures }) => isChosen && figures.spills + figures.scratch > 0);
      assert.deepEqual(spilled, []);
      const saved = readTable(await Deno.readTextFile(tablePath(target)));
      assert.equal(kernels[0]!.driver, saved.driver, "save the tables with this driver");
      assert.deepEqual(compare(saved, kernels).failures, []);
    },
  });
}

globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
