/** Whether memory stays flat while images are made. */

import { openEngine } from "../../engine/mod.ts";
import type { Figures } from "./figures.ts";
import { BUNDLED } from "./machine.ts";
import { IMAGE } from "./models.ts";
import { drift } from "../../report/statistics.ts";

/** Images before the caches of compiler and allocator have their size. */
const WARM_UP = 20;

/** Every so many images in the second series the size changes, which builds the programs anew. */
const SIZES = [64, 96, 80];

/**
 * Makes a series of images of one size and then one of changing sizes, and follows the memory of the process.
 *
 * @param images length of the first series after the warm-up; the second one has a third of it
 */
export async function benchMemory(
  log: (line: string) => void,
  images = 100,
): Promise<Figures> {
  const engine = await openEngine({ modelPath: BUNDLED });
  try {
    const series = async (count: number, sizes: readonly number[]) => {
      const resident: number[] = [];
      const device: number[] = [];
      for (let i = 0; i < count; i++) {
        const side = sizes[i % sizes.length]!;
        const request = { ...IMAGE, seed: i, width: side, height: side };
        const { peakBytes } = await engine.generate(request);
        resident.push(Deno.memoryUsage().rss);
        device.push(peakBytes);
        if ((i + 1) % 20 === 0) log(`memory: ${i + 1} of ${count} images`);
      }
      return { resident, device };
    };
    const same = await series(WARM_UP + images, [IMAGE.width]);
    const changing = await series(WARM_UP + Math.ceil(images / 3), SIZES);
    const resident = drift(same.resident, WARM_UP);
    const other = drift(changing.resident, WARM_UP);
    const device = drift(same.device, WARM_UP);
    return {
      "memory of the process": { value: resident.last / 1e6, unit: "MB" },
      "memory growth over the series": { value: growth(resident), unit: "%" },
      "memory growth per image": { value: resident.slope / 1e3, unit: "kB" },
      "memory growth with changing sizes": { value: growth(other), unit: "%" },
      "memory growth per image with changing sizes": { value: other.slope / 1e3, unit: "kB" },
      "device memory growth over the series": { value: growth(device), unit: "%" },
    };
  } finally {
    await engine.close();
  }
}

function growth({ first, last }: { first: number; last: number }): number {
  return (last / first - 1) * 100;
}
