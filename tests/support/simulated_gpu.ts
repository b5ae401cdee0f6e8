/** A GPU with a clock of its own, for what depends on time. */
import { type Device, type Executable, Pacer, runSequence } from "../../runtime/mod.ts";

/** Work of a simulated GPU. */
export interface SimulatedSubmit {
  /** Part of a submit's budget. */
  readonly cost: number;
  /** Seconds that the GPU takes for the submit. */
  readonly seconds: number;
}

/** What a simulated GPU saw. */
interface SimulatedRuns {
  readonly waits: number;
  /** Longest time between two waits, in seconds. */
  readonly longestGroup: number;
}

/** Runs programs one after the other, each a list of submits, as the steps of one stage. */
export async function simulateRuns(
  programs: readonly (readonly SimulatedSubmit[])[],
): Promise<SimulatedRuns> {
  let [now, busyUntil, waits, group, longestGroup] = [0, 0, 0, 0, 0];
  const device = {
    adapter: { backend: "deno" },
    pacer: new Pacer({ now: () => now * 1000 }),
    submit: (commands: readonly unknown[]) => {
      for (const { seconds } of commands as SimulatedSubmit[]) {
        busyUntil = Math.max(busyUntil, now) + seconds;
        group += seconds;
      }
    },
    wait: (proceed?: () => void) => {
      waits++;
      longestGroup = Math.max(longestGroup, group);
      group = 0;
      now = Math.max(now, busyUntil);
      proceed?.();
      return Promise.resolve();
    },
  };
  const runs = programs.map((submits) => ({
    stage: "denoise",
    programs: [{
      submits,
      costs: submits.map(({ cost }) => cost),
      encode: (index: number) => submits[index],
      segmentFrom: () => undefined,
      exchanges: new Map(),
    } as unknown as Executable],
  }));
  await runSequence(device as unknown as Device, runs);
  return { waits, longestGroup };
}
