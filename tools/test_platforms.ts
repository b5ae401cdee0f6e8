/**
 * Runs denoise on systems that this machine is not: Windows under Wine, and Linux on ARM64 under qemu, which are fetched once.
 * `deno task test:platforms windows|arm64` runs all checks, `… windows fetch page` two of them by name, `… arm64 run ARGUMENTS` a
 * command, and `… windows PATH` the tests under a path.
 */
import { ARM64 } from "./platforms/arm64.ts";
import type { System } from "./platforms/system.ts";
import { WINDOWS } from "./platforms/windows.ts";

export const SYSTEMS: Readonly<Record<string, System>> = { windows: WINDOWS, arm64: ARM64 };

async function main([name = "nothing", ...args]: readonly string[]): Promise<number> {
  const system = SYSTEMS[name];
  if (system === undefined) {
    console.error(`Cannot test on ${name}: there is ${Object.keys(SYSTEMS).join(" and ")}`);
    return 2;
  }
  const obstacle = system.obstacle();
  if (obstacle !== undefined) {
    console.error(`Cannot test on ${name}: ${obstacle}`);
    return 1;
  }
  return await system.test(args);
}

if (import.meta.main) {
  try {
    Deno.exit(await main(Deno.args));
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}
