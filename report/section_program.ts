/** Runs one section of a report as a process: what it finds goes out line by line, so that a crash loses nothing. */

import { openDevice } from "../runtime/mod.ts";
import { LINE_MARK } from "./section_process.ts";
import type { SectionData, SectionName } from "./types.ts";
import { checkCases } from "./sections/correctness.ts";
import { readEnvironment } from "./sections/environment.ts";
import { measureOps } from "./sections/ops.ts";
import { measureStages, measureSteps } from "./sections/parts.ts";
import { probe } from "./sections/probes.ts";
import type { Section, SectionOrder } from "./sections/section.ts";
import { tuneTwice } from "./sections/tuning.ts";

export type SectionLine =
  | { readonly type: "begin"; readonly what: string }
  | { readonly type: "found"; readonly data: SectionData[SectionName] }
  | { readonly type: "end"; readonly isComplete: boolean }
  | { readonly type: "failed"; readonly message: string };

const SECTIONS: { readonly [Name in SectionName]: Section<Name> } = {
  environment: readEnvironment,
  probes: probe,
  correctness: checkCases,
  tuning: tuneTwice,
  ops: measureOps,
  steps: measureSteps,
  stages: measureStages,
};

/** Runs the section that standard input asks for. */
export async function runSection(): Promise<number> {
  const order = JSON.parse(await new Response(Deno.stdin.readable).text()) as SectionOrder;
  const begun = performance.now();
  const say = (line: SectionLine) => write(`${LINE_MARK}${JSON.stringify(line)}\n`);
  try {
    const device = await openDevice(order.device);
    const section = SECTIONS[order.name] as Section<SectionName>;
    const isComplete = await section({
      device,
      known: order.known,
      deadline: begun + order.seconds * 1000,
      begin: (what) => say({ type: "begin", what }),
      found: (data) => say({ type: "found", data }),
    });
    say({ type: "end", isComplete });
    return 0;
  } catch (error) {
    say({ type: "failed", message: (error as Error).message });
    return 1;
  }
}

function write(text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}
