import assert from "node:assert/strict";
import { readMachine } from "./machine.ts";
import { runReport, SECTION_SHARES } from "./run_report.ts";
import { runSectionProcess } from "./section_process.ts";
import type { SectionOrder } from "./sections/section.ts";
import type { GpuReport } from "./types.ts";

/** Answers every order with data that holds the order itself; Dawn's adapter is not there. */
const PROGRAM = `
  const order = JSON.parse(await new Response(Deno.stdin.readable).text());
  const say = (line) => console.log("denoise-report " + JSON.stringify(line));
  if (order.device.backend === "dawn") say({ type: "failed", message: "Cannot find a GPU" });
  else {
    const arithmetic = { f32: 2e12 };
    const own = order.name === "probes" ? { arithmetic, reads: [{ bytesPerSecond: 5 }], copies: 7 } : { rows: [] };
    say({ type: "found", data: { ...own, order } });
    say({ type: "end", isComplete: true });
  }`;

Deno.test("runReport() runs the sections in order, deals out the time and hands on what was learnt", async () => {
  const states: number[] = [];
  const report = await runReport({
    version: "1.2.3",
    minutes: 1,
    backends: ["deno", "dawn"],
    sections: ["environment", "probes", "ops"],
    machine: await readMachine(),
    runSection: (order, onBegin) =>
      runSectionProcess(order, [Deno.execPath(), "eval", "--quiet", PROGRAM], onBegin),
    onBegin: () => {},
    onReport: ({ sections }: GpuReport) => Promise.resolve(void states.push(sections.length)),
  });
  assert.deepEqual(
    report.sections.map(({ name, backend, state }) => [name, backend, state]),
    [
      ["environment", "deno", "done"],
      ["environment", "dawn", "failed"],
      ["probes", "deno", "done"],
      ["ops", "deno", "done"],
    ],
  );
  assert.deepEqual(states, [1, 2, 3, 4]);
  const orders = report.sections.filter(({ data }) => data)
    .map(({ data }) => (data as unknown as { order: SectionOrder }).order);
  assert.deepEqual(orders.map(({ known }) => known), [{}, {}, {
    flopsPerSecond: 2e12,
    bytesPerSecond: 7,
  }]);
  const [first, , last] = orders.map(({ seconds }) => seconds) as [number, number, number];
  const { environment, probes, ops } = SECTION_SHARES;
  const share = environment / (2 * (environment + probes + ops));
  assert.ok(Math.abs(first - 60 * 0.97 * share) < 0.5, `${first} s`);
  assert.ok(last > 40 && last < 60, `${last} s: what is left is the last one's`);
});
