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
import type { TorchReport } from "./torch_report.ts";
import {
  type GpuReport,
  hasFailed,
  type OpRow,
  type PartRow,
  type SectionData,
  type SectionName,
  type SectionResult,
  type TunedClass,
} from "./types.ts";

const BACKEND_NAMES: Readonly<Record<GpuBackend, string>> = { deno: "Deno", dawn: "Dawn" };
/** Arithmetic operations per byte below which memory bounds an op, and its rate is one of bytes. */
const MEMORY_BOUND = 16;
/** The op whose rate stands in the summary. */
const HEADLINE_OP = "linear:4160x10240x3840:bf16";
/** Failures and kernels that are listed. */
const MAX_LISTED = 12;

/** Writes a report as Markdown. */
export function reportMarkdown(report: GpuReport, torch?: TorchReport): string {
  const reader = new Reader(report, torch);
  return [
    `# GPU report: ${reader.adapter}`,
    reader.origin(),
    ...reader.problems(),
    "## Summary",
    reader.summary(),
    ...reader.correctness(),
    ...reader.probes(),
    ...reader.ops(),
    ...reader.parts("steps", "Steps of models"),
    ...reader.parts("stages", "Encoders and decoders"),
    ...reader.tuning(),
    ...reader.environment(),
    "## How it was made",
    reader.sections(),
    "`denoise report` made it; weights are random, so nothing was downloaded. How to read it: `docs/gpu-report.md`.",
  ].filter((block) => block !== "").join("\n\n") + "\n";
}

class Reader {
  readonly #report: GpuReport;
  readonly #torch: TorchReport | undefined;
  readonly #backends: readonly GpuBackend[];

  constructor(report: GpuReport, torch?: TorchReport) {
    this.#report = report;
    this.#torch = torch;
    const withData = report.sections.filter(({ data }) => data !== undefined);
    this.#backends = [...new Set(withData.map(({ backend }) => backend))];
  }

  get adapter(): string {
    const all = this.#backends.map((backend) => this.#data("environment", backend)?.adapter);
    return all.find((name) => name !== undefined) ?? "no adapter was found";
  }

  origin(): string {
    const { date, denoise, machine } = this.#report;
    const seconds = this.#report.sections.reduce((sum, section) => sum + section.seconds, 0);
    return [
      `denoise ${denoise}, Deno ${machine.deno}`,
      machine.os,
      ...(machine.nvidia ? [`NVIDIA driver ${machine.nvidia}`] : []),
      `${machine.cpu || "unknown processor"}, ${machine.cores} cores, ${bytes(machine.memory)}`,
      `${date.slice(0, 10)}, ${(seconds / 60).toFixed(1)} minutes`,
    ].join(" · ");
  }

  /** What must not be overlooked. */
  problems(): string[] {
    const failed = this.#report.sections.filter(hasFailed);
    const lines = failed.map(({ name, backend, reason }) =>
      `- **${TITLES[name]}, ${BACKEND_NAMES[backend]}:** ${oneLine(reason ?? "it failed")}`
    );
    for (const backend of this.#backends) {
      const found = this.#data("correctness", backend);
      if (!found || found.passed === found.ran) continue;
      lines.push(
        `- **${BACKEND_NAMES[backend]} computes wrong results** in ${
          found.ran - found.passed
        } of ${found.ran} cases, see below.`,
      );
    }
    return lines.length > 0 ? ["## What went wrong", lines.join("\n")] : [];
  }

  summary(): string {
    const rows: [string, (backend: GpuBackend) => Cell][] = [
      ["f32 in registers", (backend) => flops(this.#data("probes", backend)?.arithmetic.f32)],
      ["Matrix units, f16", (backend) => flops(this.#data("probes", backend)?.arithmetic.matrix)],
      ["Memory", (backend) => rate(memoryRate(this.#data("probes", backend)))],
      ["Wait for nothing", (backend) => ms(this.#data("probes", backend)?.idleMs)],
      ["Results as they should be", (backend) => this.#correct(backend)],
      [`\`${HEADLINE_OP}\``, (backend) => this.#headline(backend)],
      ...this.#partTitles("steps").map((
        title,
      ): [string, (backend: GpuBackend) => Cell] => [
        title,
        (backend) => ms(this.#partOf("steps", backend, title)?.tuned?.wallMs),
      ]),
    ];
    return this.#byBackend("", rows);
  }

  correctness(): string[] {
    const parts = this.#backends.flatMap((backend) => {
      const found = this.#data("correctness", backend);
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

  probes(): string[] {
    const data = (backend: GpuBackend) => this.#data("probes", backend);
    if (!this.#backends.some(data)) return [];
    const sizes = [
      ...new Set(
        this.#backends.flatMap((b) => data(b)?.reads ?? [])
          .map((each) => each.bytes),
      ),
    ].sort((a, b) => a - b);
    const transfers = (kind: "uploads" | "readBacks") => [
      ...new Set(this.#backends.flatMap((b) => data(b)?.[kind] ?? []).map((each) => each.bytes)),
    ];
    const rows: [string, (backend: GpuBackend) => Cell][] = [
      ["f32 in registers", (b) => flops(data(b)?.arithmetic.f32)],
      ["f16 in registers", (b) => flops(data(b)?.arithmetic.f16)],
      ["int8 by fours", (b) => flops(data(b)?.arithmetic.i8, "OP/s")],
      ["Matrix units, f16 to f32", (b) => flops(data(b)?.arithmetic.matrix)],
      ["Workgroup memory", (b) => rate(data(b)?.workgroupReads)],
      ...sizes.map((size): [string, (backend: GpuBackend) => Cell] => [
        `Reads of ${bytes(size)} again and again`,
        (b) => rate(data(b)?.reads.find((each) => each.bytes === size)?.bytesPerSecond),
      ]),
      ["Copies, bytes read and written", (b) => rate(data(b)?.copies)],
      ["A launch after the other", (b) => us(data(b)?.launchUs)],
      ["Encoding a launch", (b) => us(data(b)?.encodeUs)],
      ["A submit", (b) => us(data(b)?.submitUs)],
      ["A wait for nothing", (b) => ms(data(b)?.idleMs)],
      ...(["uploads", "readBacks"] as const).flatMap((kind) =>
        transfers(kind).map((size): [string, (backend: GpuBackend) => Cell] => [
          `${kind === "uploads" ? "Upload" : "Read-back"} of ${bytes(size)}`,
          (b) => {
            const found = data(b)?.[kind].find((each) => each.bytes === size);
            return found && `${ms(found.ms)}, ${rate(found.bytes / found.ms * 1000)}`;
          },
        ])
      ),
    ];
    const compiled = this.#backends.flatMap((backend) =>
      (data(backend)?.compilations ?? []).map(({ spec, kernel, ms: time }) => [
        `\`${spec}\``,
        BACKEND_NAMES[backend],
        `\`${kernel.split(" ")[0]}\``,
        ms(time),
      ])
    );
    return [
      "## Probes",
      this.#byBackend("", rows),
      ...(compiled.length > 0
        ? [
          "First compilations, where the driver had not kept them:",
          table(["", "", "Kernel", "Time"], compiled, [3]),
        ]
        : []),
    ];
  }

  ops(): string[] {
    const rows = this.#backends.flatMap((backend) =>
      (this.#data("ops", backend)?.rows ?? []).map((row) => ({ backend, row }))
    );
    if (rows.length === 0) return [];
    const specs = [...new Set(rows.map(({ row }) => row.spec))];
    const hasTorch = this.#torch !== undefined;
    const used = specs.map((spec) => {
      const cells = this.#backends.flatMap((backend) => {
        const own = rows.filter((each) => each.backend === backend && each.row.spec === spec)
          .map(({ row }) => row);
        const row = usedOf(own);
        if (!row) return [NOTHING, NOTHING, NOTHING];
        return [row.variant || NOTHING, opRate(row), percent(row.share)];
      });
      const sizes = [
        ...new Set(rows.flatMap(({ row }) => row.spec === spec ? row.scaled ?? [] : [])),
      ];
      const note = sizes.length > 0 ? ` (as \`${sizes.join("`, `")}\`)` : "";
      const torch = hasTorch ? [this.#torchRate(spec)] : [];
      return [`\`${spec}\`${note}`, ...cells, ...torch];
    });
    const heads = this.#backends.flatMap((backend) => [
      BACKEND_NAMES[backend],
      "rate",
      "of the ceiling",
    ]);
    const numbers = this.#backends.flatMap((_, i) => [3 * i + 2, 3 * i + 3]);
    const all = rows.map(({ backend, row }) => [
      `\`${row.scaled ?? row.spec}\``,
      BACKEND_NAMES[backend],
      row.variant + (row.isTuned ? " (tuned)" : row.isRule ? " (rule)" : ""),
      row.error === undefined ? ms(row.ms) : oneLine(row.error),
      row.error === undefined ? opRate(row) : "",
      row.error === undefined ? percent(row.share) : "",
    ]);
    const torchHead = this.#torch ? [`torch ${this.#torch.dtype} on ${this.#torch.device}`] : [];
    return [
      "## Ops at sizes of real models",
      "The kernel that would be used: the tuning run's choice, else the rule's. The ceiling is the rate in registers, or " +
      "that of the matrix units for kernels on these, or the memory's, whichever bounds the op.",
      table(["", ...heads, ...torchHead], used, [
        ...numbers,
        ...(hasTorch ? [3 * this.#backends.length + 1] : []),
      ]),
      details(
        "Every variant",
        table(["", "", "Variant", "Time", "Rate", "Of the ceiling"], all, [3, 4, 5]),
      ),
    ];
  }

  parts(name: "steps" | "stages", title: string): string[] {
    const all = this.#backends.flatMap((backend) =>
      (this.#data(name, backend)?.rows ?? []).map((row) => ({ backend, row }))
    );
    if (all.length === 0) return [];
    const rows = all.filter(({ row }) => row.tuned);
    const missing = all.flatMap(({ backend, row: { title, format, error, tuned } }) =>
      tuned ? [] : [
        `- ${title}, ${format}, ${BACKEND_NAMES[backend]}: ${oneLine(error ?? "no time was left")}`,
      ]
    );
    // Columns that have nothing in them are left out.
    const others =
      ([["By the rule", "untuned"], ["Exact", "exact"], ["Streamed", "streamed"]] as const)
        .filter(([, key]) => rows.some(({ row }) => row[key]));
    const hasTorch = this.#torch !== undefined && rows.some(({ row }) => this.#torchMs(row));
    const heads = ["", "", "Time", "GPU busy", "Waits", "Rate"];
    const cells = rows.map(({ backend, row }) => [
      describePart(row) + (row.error === undefined ? "" : `: ${oneLine(row.error)}`),
      BACKEND_NAMES[backend],
      ms(row.tuned?.wallMs) ?? NOTHING,
      busy(row) ?? NOTHING,
      row.tuned ? row.tuned.waits.toFixed(0) : NOTHING,
      row.tuned ? flops(row.flops / row.tuned.wallMs * 1000) : NOTHING,
      ...others.map(([, key]) => ms(row[key]?.wallMs) ?? NOTHING),
      bytes(row.weightBytes + row.workspaceBytes),
      ...(hasTorch ? [ms(this.#torchMs(row)) ?? NOTHING] : []),
    ]);
    const columns = [
      ...heads,
      ...others.map(([title]) => title),
      "Memory",
      ...(hasTorch ? ["torch"] : []),
    ];
    const kernels = rows.flatMap(({ backend, row }) => {
      if (!row.kernels || row.kernels.length === 0) return [];
      const whole = row.tuned?.busyMs;
      return row.kernels.slice(0, MAX_LISTED).map((kernel, i) => [
        i === 0 ? `${describePart(row)}, ${BACKEND_NAMES[backend]}` : "",
        `\`${shortKernel(kernel.name)}\``,
        `${kernel.dispatches}`,
        ms(kernel.ms),
        whole === undefined ? "" : percent(kernel.ms / whole),
      ]);
    });
    const loading = rows.flatMap(({ backend, row }) =>
      row.loading
        ? [[
          describePart(row),
          BACKEND_NAMES[backend],
          `${row.loading.pipelines} in ${row.loading.compileSeconds.toFixed(1)} s`,
          `${bytes(row.loading.weightBytes)} in ${row.loading.uploadSeconds.toFixed(1)} s`,
        ]]
        : []
    );
    return [
      `## ${title}`,
      ...(rows.length > 0
        ? [table(columns, cells, Array.from({ length: columns.length - 2 }, (_, i) => i + 2))]
        : []),
      ...(missing.length > 0 ? [`Left out:\n\n${missing.join("\n")}`] : []),
      ...(kernels.length > 0
        ? [
          details(
            "The longest kernels",
            table(["", "Kernel", "Times", "Time", "Share"], kernels, [2, 3, 4]),
          ),
        ]
        : []),
      ...(loading.length > 0
        ? [details("Loading", table(["", "", "Compiled", "Uploaded"], loading, [2, 3]))]
        : []),
    ];
  }

  tuning(): string[] {
    const parts = this.#backends.flatMap((backend) => {
      const found = this.#data("tuning", backend);
      if (!found) return [];
      const runs = found.runs.map(({ seconds, measured, known }) =>
        `${measured} of ${known} classes in ${seconds.toFixed(1)} s`
      );
      const twice = found.classes.filter(({ timings }) =>
        timings.filter((t) => t.length).length > 1
      );
      const alike = twice.filter((each) => isAlike(each)).length;
      const rows = found.classes.map(({ op, problemClass, timings }) => [
        `${op}, ${problemClass}`,
        ...[0, 1].map((i) => timings[i]?.[0]?.variant ?? NOTHING),
        (timings.find((each) => each.length > 0) ?? []).map(({ variant, microseconds }) =>
          `${variant} ${us(microseconds)}`
        ).join(", "),
      ]);
      return [
        `${BACKEND_NAMES[backend]}: ${runs.join(", then ")}.` +
        (twice.length > 0 ? ` Both chose the same in ${alike} of ${twice.length} classes.` : "") +
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

  environment(): string[] {
    const data = (backend: GpuBackend) => this.#data("environment", backend);
    if (!this.#backends.some(data)) return [];
    const limits = Object.keys(this.#backends.map(data).find(Boolean)?.limits ?? {});
    const rows: [string, (backend: GpuBackend) => Cell][] = [
      ["Adapter", (b) => data(b)?.adapter],
      ["Driver", (b) => data(b)?.driver || "not told"],
      ["Vendor", (b) => data(b)?.vendor],
      ["Features", (b) => featuresOf(data(b))],
      ["Subgroups", (b) => subgroupsOf(data(b))],
      ["Matrix units", (b) => matricesOf(data(b))],
      ["Memory that could be allocated", (b) => allocatable(data(b))],
      ...limits.map((name): [string, (backend: GpuBackend) => Cell] => [
        `\`${name}\``,
        (b) => {
          const value = data(b)?.limits[name as keyof SectionData["environment"]["limits"]];
          return value === undefined ? undefined : `${value}`;
        },
      ]),
    ];
    return ["## The adapter", this.#byBackend("", rows, false)];
  }

  sections(): string {
    return table(
      ["Section", "", "Seconds", "Ended"],
      this.#report.sections.map(({ name, backend, seconds, state, reason }) => [
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

  #data<Name extends SectionName>(
    name: Name,
    backend: GpuBackend,
  ): SectionData[Name] | undefined {
    const found = this.#report.sections.find((section) =>
      section.name === name && section.backend === backend
    ) as SectionResult<Name> | undefined;
    return found?.data;
  }

  #byBackend(
    corner: string,
    rows: readonly [string, (backend: GpuBackend) => Cell][],
    areNumbers = true,
  ): string {
    const cells = rows.map(([title, cell]) => [
      title,
      ...this.#backends.map((backend) => cell(backend) || NOTHING),
    ]).filter((row) => row.slice(1).some((cell) => cell !== NOTHING));
    const heads = this.#backends.map((backend) => BACKEND_NAMES[backend]);
    return table([corner, ...heads], cells, areNumbers ? heads.map((_, i) => i + 1) : []);
  }

  #correct(backend: GpuBackend): Cell {
    const found = this.#data("correctness", backend);
    return found && `${found.passed} of ${found.ran}`;
  }

  #headline(backend: GpuBackend): Cell {
    const rows = this.#data("ops", backend)?.rows.filter(({ spec }) => spec === HEADLINE_OP) ?? [];
    const row = usedOf(rows);
    if (!row) return undefined;
    const note = row.scaled === undefined ? "" : `, as \`${row.scaled}\``;
    return `${opRate(row)} (${percent(row.share)}${note})`;
  }

  #partTitles(name: "steps" | "stages"): string[] {
    const rows = this.#backends.flatMap((backend) => this.#data(name, backend)?.rows ?? []);
    return [...new Set(rows.filter(({ tuned }) => tuned).map(describePart))];
  }

  #partOf(name: "steps" | "stages", backend: GpuBackend, title: string): PartRow | undefined {
    return this.#data(name, backend)?.rows.find((row) => describePart(row) === title);
  }

  #torchRate(spec: string): string {
    // There, weights are of one format.
    const [op, sizes] = spec.split(":");
    const found = this.#torch?.ops.find((each) => each.spec === `${op}:${sizes}`);
    return found ? opRate(found) : NOTHING;
  }

  /** Of the same part at the same size, where all of its layers were run. */
  #torchMs({ title, width, height, layers }: PartRow): number | undefined {
    if (layers && layers.run < layers.all) return undefined;
    return this.#torch?.parts.find((part) =>
      part.title === title && part.width === width && part.height === height
    )?.ms;
  }
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

/** The row that a model would use: the tuned one, else the rule's; nothing where neither was measured. */
function usedOf(rows: readonly OpRow[]): OpRow | undefined {
  const measured = rows.filter(({ error }) => error === undefined);
  return measured.find(({ isTuned }) => isTuned) ?? measured.find(({ isRule }) => isRule) ??
    measured.find(({ variant }) => variant === "");
}

function describePart({ title, format, width, height, layers, asked }: PartRow): string {
  const size = width > 0 ? ` at ${width}×${height}` : "";
  const part = layers && layers.run < layers.all ? `, ${layers.run} of ${layers.all} layers` : "";
  const note = asked ? ` (instead of ${asked.width}×${asked.height})` : "";
  return `${title}, ${format}${size}${note}${part}`;
}

function busy({ tuned }: PartRow): Cell {
  if (tuned?.busyMs === undefined) return undefined;
  return percent(Math.min(1, tuned.busyMs / tuned.wallMs));
}

/** Whether two runs chose the same. */
function isAlike({ timings }: TunedClass): boolean {
  const [first, second] = timings.filter((each) => each.length > 0);
  if (!first?.[0] || !second?.[0]) return false;
  return first[0].variant === second[0].variant;
}

function opRate(
  { flops: work, bytes: moved, ms: time }: Pick<OpRow, "flops" | "bytes" | "ms">,
): string {
  return work / moved < MEMORY_BOUND ? rate(moved / time * 1000)! : flops(work / time * 1000)!;
}

function memoryRate(data: SectionData["probes"] | undefined): number | undefined {
  if (!data) return undefined;
  return Math.max(data.copies ?? 0, data.reads[0]?.bytesPerSecond ?? 0) || undefined;
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

/** The file of a kernel and what tells its specialisations apart, in few words: what ops have besides stands at the end. */
function shortKernel(name: string): string {
  const [file = "", ...params] = name.split(" ");
  const text = [file, ...params.map((param) => param.replace(/=true$/, ""))].join(" ");
  return text.length > 70 ? `${text.slice(0, 33)}…${text.slice(-36)}` : text;
}
