/** A report for people: the short answer first, then tables. */

import type { GpuBackend } from "../runtime/mod.ts";
import {
  bytes,
  type Cell,
  details,
  flops,
  ms,
  NOTHING,
  oneLine,
  percent,
  rate,
  table,
  us,
} from "./cells.ts";
import { opsTables, partsTables, probesTables } from "./measured_tables.ts";
import {
  BACKEND_NAMES,
  opRate,
  ReportReader,
  type Row,
  type TorchReport,
  usedOf,
} from "./report_reader.ts";
import {
  type GpuReport,
  hasFailed,
  memoryRate,
  type SectionData,
  type SectionName,
  type TunedClass,
} from "./types.ts";

/** The op whose rate stands in the summary. */
const HEADLINE_OP = "linear:4160x10240x3840:bf16";
const MAX_LISTED = 12;

const BROWSER_NOTE =
  "A browser made this: correctness counts in full, and times are not those of Deno on the same GPU, because browsers " +
  "check every access and round their clocks.";

export function reportMarkdown(report: GpuReport, torch?: TorchReport): string {
  const reader = new ReportReader(report, torch);
  return [
    `# GPU report: ${adapterOf(reader)}`,
    origin(reader),
    ...problems(reader),
    ...(reader.backends.includes("browser") ? [BROWSER_NOTE] : []),
    "## Summary",
    summary(reader),
    ...correctness(reader),
    ...probesTables(reader),
    ...opsTables(reader),
    ...partsTables(reader, "steps", "Steps of models"),
    ...partsTables(reader, "stages", "Encoders and decoders"),
    ...tuning(reader),
    ...environment(reader),
    "## How it was made",
    sections(reader),
    "`denoise report`, or its page, made it; weights are random, so nothing was downloaded. How to read it: `docs/gpu-report.md`.",
  ].filter((block) => block !== "").join("\n\n") + "\n";
}

function adapterOf(reader: ReportReader): string {
  const all = reader.backends.map((backend) => reader.data("environment", backend)?.adapter);
  return all.find((name) => name !== undefined) ?? "no adapter was found";
}

function origin(reader: ReportReader): string {
  const { date, denoise, machine } = reader.report;
  const seconds = reader.report.sections.reduce((sum, section) => sum + section.seconds, 0);
  return [
    `denoise ${denoise}, ${machine.runtime}`,
    machine.os,
    ...(machine.nvidia ? [`NVIDIA driver ${machine.nvidia}`] : []),
    [
      machine.cpu || "unknown processor",
      `${machine.cores} cores`,
      ...(machine.memory > 0 ? [bytes(machine.memory)] : []),
    ].join(", "),
    `${date.slice(0, 10)}, ${(seconds / 60).toFixed(1)} minutes`,
  ].join(" · ");
}

/** What must not be overlooked. */
function problems(reader: ReportReader): string[] {
  const failed = reader.report.sections.filter(hasFailed);
  const lines = failed.map(({ name, backend, reason }) =>
    `- **${TITLES[name]}, ${BACKEND_NAMES[backend]}:** ${oneLine(reason ?? "it failed")}`
  );
  for (const backend of reader.backends) {
    const found = reader.data("correctness", backend);
    if (!found || found.passed === found.ran) continue;
    lines.push(
      `- **${BACKEND_NAMES[backend]} computes wrong results** in ${
        found.ran - found.passed
      } of ${found.ran} cases, see below.`,
    );
  }
  return lines.length > 0 ? ["## What went wrong", lines.join("\n")] : [];
}

function summary(reader: ReportReader): string {
  const probes = (backend: GpuBackend) => reader.data("probes", backend);
  const rows: Row[] = [
    ["f32 in registers", (backend) => flops(probes(backend)?.arithmetic.f32)],
    ["Matrix units, f16", (backend) => flops(probes(backend)?.arithmetic.matrix)],
    ["Memory", (backend) => rate(memoryRate(probes(backend) ?? { reads: [] }))],
    ["Wait for nothing", (backend) => ms(probes(backend)?.idleMs)],
    ["Results as they should be", (backend) => correctOf(reader, backend)],
    [`\`${HEADLINE_OP}\``, (backend) => headlineOf(reader, backend)],
    ...reader.partTitles("steps").map((title): Row => [
      title,
      (backend) => ms(reader.partOf("steps", backend, title)?.tuned?.wallMs),
    ]),
  ];
  return reader.byBackend("", rows);
}

function correctness(reader: ReportReader): string[] {
  const parts = reader.backends.flatMap((backend) => {
    const found = reader.data("correctness", backend);
    if (!found) return [];
    const { failures, total, ran, refused, passed } = found;
    const rest = total - ran - refused;
    const text =
      `${
        BACKEND_NAMES[backend]
      }: ${passed} of ${ran} results equal the reference in double precision` +
      `; ${refused} cases are not for the variant or the adapter` +
      (rest > 0 ? `; there was no time for ${rest}` : "") + ".";
    const list = failures.slice(0, MAX_LISTED).map((failure) =>
      `- ${failure.op}${failure.variant && ` (${failure.variant})`}: ${oneLine(failure.message)}`
    );
    return [text, ...(list.length > 0 ? [list.join("\n")] : [])];
  });
  return parts.length > 0 ? ["## Correctness", ...parts] : [];
}

function tuning(reader: ReportReader): string[] {
  const parts = reader.backends.flatMap((backend) => {
    const found = reader.data("tuning", backend);
    if (!found) return [];
    const runs = found.runs.map(({ seconds, measured, known }) =>
      `${measured} of ${known} classes in ${seconds.toFixed(1)} s`
    );
    const twice = found.classes.filter(({ timings }) => timings.filter((t) => t.length).length > 1);
    const alike = twice.filter((each) => isAlike(each)).length;
    const raced = found.classes.filter(({ timings }) => timings.some(({ length }) => length > 0));
    const unraced = found.classes.length - raced.length;
    const rows = raced.map(({ op, problemClass, timings }) => [
      `${op}, ${problemClass}`,
      ...[0, 1].map((i) => timings[i]?.[0]?.variant ?? NOTHING),
      (timings.find((each) => each.length > 0) ?? []).map(({ variant, microseconds }) =>
        `${variant} ${us(microseconds)}`
      ).join(", "),
    ]);
    return [
      `${BACKEND_NAMES[backend]}: ${runs.join(", then ")}.` +
      (twice.length > 0 ? ` Both chose the same in ${alike} of ${twice.length} classes.` : "") +
      (unraced > 0 ? ` In ${unraced} of all, a race took longer than a whole run.` : "") +
      (found.tuning.excluded.length > 0
        ? ` Not used here: ${found.tuning.excluded.map(oneLine).join("; ")}.`
        : ""),
      ...(rows.length > 0
        ? [details("Choices", table(["Class", "First run", "Second run", "Times"], rows, []))]
        : []),
    ];
  });
  return parts.length > 0 ? ["## Tuning", ...parts] : [];
}

function environment(reader: ReportReader): string[] {
  const data = (backend: GpuBackend) => reader.data("environment", backend);
  if (!reader.backends.some(data)) return [];
  const limits = Object.keys(reader.backends.map(data).find(Boolean)?.limits ?? {});
  const rows: Row[] = [
    ["Adapter", (b) => data(b)?.adapter],
    ["Driver", (b) => data(b)?.driver || "not told"],
    ["Vendor", (b) => data(b)?.vendor],
    ["Features", (b) => featuresOf(data(b))],
    ["Subgroups", (b) => subgroupsOf(data(b))],
    ["Matrix units", (b) => matricesOf(data(b))],
    ["Memory that could be allocated", (b) => allocatable(data(b))],
    ...limits.map((name): Row => [
      `\`${name}\``,
      (b) => {
        const value = data(b)?.limits[name as keyof SectionData["environment"]["limits"]];
        return value === undefined ? undefined : `${value}`;
      },
    ]),
  ];
  return ["## The adapter", reader.byBackend("", rows, false)];
}

function sections(reader: ReportReader): string {
  return table(
    ["Section", "", "Seconds", "Ended"],
    reader.report.sections.map(({ name, backend, seconds, state, reason }) => [
      TITLES[name],
      BACKEND_NAMES[backend],
      seconds.toFixed(1),
      state === "done"
        ? "complete"
        : state === "cut"
        ? `when its time was up${reason === undefined ? "" : ` (${oneLine(reason)})`}`
        : `early: ${oneLine(reason ?? "it failed")}`,
    ]),
    [2],
  );
}

function correctOf(reader: ReportReader, backend: GpuBackend): Cell {
  const found = reader.data("correctness", backend);
  return found && `${found.passed} of ${found.ran}`;
}

function headlineOf(reader: ReportReader, backend: GpuBackend): Cell {
  const rows = reader.data("ops", backend)?.rows.filter(({ spec }) => spec === HEADLINE_OP) ?? [];
  const row = usedOf(rows);
  if (!row) return undefined;
  const note = row.scaled === undefined ? "" : `, as \`${row.scaled}\``;
  return `${opRate(row)} (${percent(row.share)}${note})`;
}

const TITLES: Readonly<Record<SectionName, string>> = {
  environment: "The adapter",
  probes: "Probes",
  correctness: "Correctness",
  tuning: "Tuning",
  ops: "Ops",
  steps: "Steps",
  stages: "Encoders and decoders",
};

function isAlike({ timings }: TunedClass): boolean {
  const [first, second] = timings.filter((each) => each.length > 0);
  if (!first?.[0] || !second?.[0]) return false;
  return first[0].variant === second[0].variant;
}

function featuresOf(data: SectionData["environment"] | undefined): Cell {
  if (!data) return undefined;
  const { f16, subgroups, timestamps, subgroupSizeControl } = data.features;
  const known = { f16, subgroups, "subgroup sizes": subgroupSizeControl, timestamps };
  return Object.entries(known).flatMap(([name, has]) => has ? [name] : []).join(", ") || "none";
}

function subgroupsOf(data: SectionData["environment"] | undefined): Cell {
  if (!data?.features.subgroups) return undefined;
  const { subgroupMinSize: least, subgroupMaxSize: most } = data.features;
  return least === most ? `${least}` : `${least} to ${most}`;
}

function matricesOf(data: SectionData["environment"] | undefined): Cell {
  return data?.features.subgroupMatrices.map(({ componentType, resultComponentType, m, n, k }) =>
    `${componentType} to ${resultComponentType} ${m}×${n}×${k}`
  ).join(", ");
}

function allocatable(data: SectionData["environment"] | undefined): Cell {
  if (!data?.allocatable.bytes) return undefined;
  return `${bytes(data.allocatable.bytes)}${data.allocatable.isAll ? "" : " or more"}`;
}
