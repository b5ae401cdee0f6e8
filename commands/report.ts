/** `denoise report`. */

import { join } from "node:path";
import { version } from "../generation/mod.ts";
import { reportMarkdown } from "../report/markdown.ts";
import { runReport, SECTION_SHARES } from "../report/run_report.ts";
import { availableBackends, readMachine } from "../report/machine.ts";
import { runSectionProcess, SECTION_COMMAND } from "../report/section_process.ts";
import { readTorchReport, type TorchReport } from "../report/report_reader.ts";
import { type GpuReport, hasFailed, type SectionName } from "../report/types.ts";
import { UsageError } from "./failure.ts";
import type { ReportFlags } from "./flags.ts";
import { print, tell } from "./print.ts";

export async function runReportCommand(flags: ReportFlags): Promise<number> {
  const sections = flags.sections === undefined ? undefined : sectionsOf(flags.sections);
  const torch = flags.torch === undefined ? undefined : await readTorchReport(flags.torch);
  await Deno.mkdir(flags.out, { recursive: true });
  let last = "";
  const { gpuBackend: backend, powerPreference } = flags;
  const report = await runReport({
    version,
    minutes: flags.minutes,
    sections,
    powerPreference,
    forceSoftware: flags.forceSoftware,
    backends: backend === undefined || backend === "auto" ? availableBackends() : [backend],
    machine: await readMachine(),
    runSection: (order, onBegin) => runSectionProcess(order, sectionCommand(), onBegin),
    onBegin(section, what) {
      // What is done changes many times a second.
      if (section !== last) tell(`${section}: ${what}`);
      last = section;
    },
    onReport: (report) => write(report, flags.out, torch),
  });
  const failed = report.sections.filter(hasFailed);
  for (const { name, backend, reason } of failed) tell(`${name}, ${backend}: ${reason}`);
  if (report.sections.every(({ data }) => data === undefined)) {
    throw new Error(report.sections[0]?.reason ?? "Cannot make a report: nothing was measured");
  }
  print(join(flags.out, "report.md"));
  print(join(flags.out, "report.json"));
  return failed.length > 0 ? 1 : 0;
}

async function write(
  report: GpuReport,
  folder: string,
  torch: TorchReport | undefined,
): Promise<void> {
  await Deno.writeTextFile(
    join(folder, "report.json"),
    `${JSON.stringify({ ...report, ...(torch && { torch }) }, null, 1)}\n`,
  );
  await Deno.writeTextFile(join(folder, "report.md"), reportMarkdown(report, torch));
}

function sectionsOf(text: string): SectionName[] {
  const names = Object.keys(SECTION_SHARES) as SectionName[];
  const asked = text.split(",").map((name) => name.trim());
  const unknown = asked.find((name) => !names.some((known) => known === name));
  if (unknown !== undefined) {
    throw new UsageError(`Cannot run section "${unknown}": there are ${names.join(", ")}`);
  }
  return names.filter((name) => asked.includes(name));
}

function sectionCommand(): string[] {
  if (Deno.build.standalone) return [Deno.execPath(), SECTION_COMMAND];
  return [
    // Deno that was started through another loader is not its own executable.
    Deno.env.get("DENOISE_DENO") ?? Deno.execPath(),
    ...["run", "-A", "--quiet", "--no-check", Deno.mainModule, SECTION_COMMAND],
  ];
}
