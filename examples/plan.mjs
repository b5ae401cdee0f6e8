// Says what a request would take of the GPU's memory, before anything is loaded: `deno run -A plan.mjs`.
import { planModel } from "denoise";

for (const side of [64, 96]) {
  const { adapter, memory } = await planModel("bundled", { width: side, height: side });
  const megabytes = Math.round(memory.peakBytes / 1e6);
  console.log(
    `${side}x${side}: ${megabytes} MB on ${adapter}, ${memory.fits ? "fits" : "too much"}`,
  );
  for (const { name, peakBytes } of memory.stages) {
    console.log(`  ${name}: ${Math.round(peakBytes / 1e6)} MB`);
  }
}
