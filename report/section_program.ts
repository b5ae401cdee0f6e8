/** Runs one section of a report as a process: what it finds goes out line by line. */

import { runOrder } from "./run_section.ts";
import { LINE_MARK } from "./section_process.ts";
import type { SectionOrder } from "./sections/section.ts";

/** Runs the section that standard input asks for. */
export async function runSection(): Promise<number> {
  const order = JSON.parse(await new Response(Deno.stdin.readable).text()) as SectionOrder;
  const isGood = await runOrder(order, (line) => write(`${LINE_MARK}${JSON.stringify(line)}\n`));
  return isGood ? 0 : 1;
}

function write(text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}
