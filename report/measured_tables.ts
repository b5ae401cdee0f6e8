/** What was measured, as tables: probes, ops, and parts of models. */
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
import {
  BACKEND_NAMES,
  describePart,
  opRate,
  type ReportReader,
  type Row,
  usedOf,
} from "./report_reader.ts";
import type { PartRow } from "./types.ts";

const MAX_LISTED = 12;
/** Share of the ceiling from which on it is no accident of the clock. */
const MOST_SHARE = 1.1;

export function probesTables(reader: ReportReader): string[] {
  const data = (backend: GpuBackend) => reader.data("probes", backend);
  if (!reader.backends.some(data)) return [];
  const sizesOf = (kind: "reads" | "uploads" | "readBacks") =>
    [
      ...new Set(reader.backends.flatMap((b) => (data(b)?.[kind] ?? []).map(({ bytes }) => bytes))),
    ].sort((a, b) => a - b);
  const rows: Row[] = [
    ["f32 in registers", (b) => flops(data(b)?.arithmetic.f32)],
    ["f16 in registers", (b) => flops(data(b)?.arithmetic.f16)],
    ["int8 by fours", (b) => flops(data(b)?.arithmetic.i8, "OP/s")],
    ["Matrix units, f16 to f32", (b) => flops(data(b)?.arithmetic.matrix)],
    ["Workgroup memory", (b) => rate(data(b)?.workgroupReads)],
    ...sizesOf("reads").map((size): Row => [
      `Reads of ${bytes(size)} again and again`,
      (b) => rate(data(b)?.reads.find((each) => each.bytes === size)?.bytesPerSecond),
    ]),
    ["Copies, bytes read and written", (b) => rate(data(b)?.copies)],
    ["A launch after the other", (b) => us(data(b)?.launchUs)],
    ["Encoding a launch", (b) => us(data(b)?.encodeUs)],
    ["A submit", (b) => us(data(b)?.submitUs)],
    ["A wait for nothing", (b) => ms(data(b)?.idleMs)],
    ...(["uploads", "readBacks"] as const).flatMap((kind) =>
      sizesOf(kind).map((size): Row => [
        `${kind === "uploads" ? "Upload" : "Read-back"} of ${bytes(size)}`,
        (b) => {
          const found = data(b)?.[kind].find((each) => each.bytes === size);
          return found && `${ms(found.ms)}, ${rate(found.bytes / found.ms * 1000)}`;
        },
      ])
    ),
  ];
  const compiled = reader.backends.flatMap((backend) =>
    (data(backend)?.compilations ?? []).map(({ spec, kernel, ms: time }) => [
      `\`${spec}\``,
      BACKEND_NAMES[backend],
      `\`${kernel.split(" ")[0]}\``,
      ms(time),
    ])
  );
  return [
    "## Probes",
    reader.byBackend("", rows),
    ...(compiled.length > 0
      ? [
        "First compilations, where the driver had not kept them:",
        table(["", "", "Kernel", "Time"], compiled, [3]),
      ]
      : []),
  ];
}

export function opsTables(reader: ReportReader): string[] {
  const rows = reader.backends.flatMap((backend) =>
    (reader.data("ops", backend)?.rows ?? []).map((row) => ({ backend, row }))
  );
  if (rows.length === 0) return [];
  const specs = [...new Set(rows.map(({ row }) => row.spec))];
  const hasTorch = reader.torch !== undefined;
  const used = specs.map((spec) => {
    const cells = reader.backends.flatMap((backend) => {
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
    const torch = hasTorch ? [torchRate(reader, spec)] : [];
    return [`\`${spec}\`${note}`, ...cells, ...torch];
  });
  const heads = reader.backends.flatMap((backend) => [
    BACKEND_NAMES[backend],
    "rate",
    "of the ceiling",
  ]);
  const numbers = reader.backends.flatMap((_, i) => [3 * i + 2, 3 * i + 3]);
  const all = rows.map(({ backend, row }) => [
    `\`${row.scaled ?? row.spec}\``,
    BACKEND_NAMES[backend],
    row.variant + (row.isTuned ? " (tuned)" : row.isRule ? " (rule)" : ""),
    row.error === undefined ? ms(row.ms) : oneLine(row.error),
    row.error === undefined ? opRate(row) : "",
    row.error === undefined ? percent(row.share) : "",
  ]);
  const torchHead = reader.torch ? [`torch ${reader.torch.dtype} on ${reader.torch.device}`] : [];
  return [
    "## Ops at sizes of real models",
    "The kernel that would be used: the tuning run's choice, else the rule's. The ceiling is the rate in registers, or " +
    "that of the matrix units for kernels on these, or the memory's, whichever bounds the op.",
    ...(rows.some(({ row: { share = 0 } }) => share > MOST_SHARE)
      ? [
        "More than 100 % is what kernels may reach that multiply less, or integers: `winograd` and `int8`. Elsewhere it " +
        "says that something else used the adapter while the probes ran: end that, and make the report again.",
      ]
      : []),
    table(["", ...heads, ...torchHead], used, [
      ...numbers,
      ...(hasTorch ? [3 * reader.backends.length + 1] : []),
    ]),
    details(
      "Every variant",
      table(["", "", "Variant", "Time", "Rate", "Of the ceiling"], all, [3, 4, 5]),
    ),
  ];
}

export function partsTables(
  reader: ReportReader,
  name: "steps" | "stages",
  title: string,
): string[] {
  const all = reader.backends.flatMap((backend) =>
    (reader.data(name, backend)?.rows ?? []).map((row) => ({ backend, row }))
  );
  if (all.length === 0) return [];
  const rows = all.filter(({ row }) => row.tuned);
  const missing = all.flatMap(({ backend, row: { title, format, error, tuned } }) =>
    tuned ? [] : [
      `- ${title}, ${format}, ${BACKEND_NAMES[backend]}: ${oneLine(error ?? "no time was left")}`,
    ]
  );
  // Columns that have nothing in them are omitted.
  const others =
    ([["By the rule", "untuned"], ["Exact", "exact"], ["Streamed", "streamed"]] as const)
      .filter(([, key]) => rows.some(({ row }) => row[key]));
  const hasTorch = reader.torch !== undefined && rows.some(({ row }) => torchMs(reader, row));
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
    ...(hasTorch ? [ms(torchMs(reader, row)) ?? NOTHING] : []),
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

function torchRate(reader: ReportReader, spec: string): string {
  // There, weights are of one format.
  const [op, sizes] = spec.split(":");
  const found = reader.torch?.ops.find((each) => each.spec === `${op}:${sizes}`);
  return found ? opRate(found) : NOTHING;
}

/** Torch's time of the same part at the same size, where all of its layers were run. */
function torchMs(
  reader: ReportReader,
  { title, width, height, layers }: PartRow,
): number | undefined {
  if (layers && layers.run < layers.all) return undefined;
  return reader.torch?.parts.find((part) =>
    part.title === title && part.width === width && part.height === height
  )?.ms;
}

function busy({ tuned }: PartRow): Cell {
  if (tuned?.busyMs === undefined) return undefined;
  return percent(Math.min(1, tuned.busyMs / tuned.wallMs));
}

/** The file of a kernel and what tells its specialisations apart, in few words: what ops have besides stands at the end. */
function shortKernel(name: string): string {
  const [file = "", ...params] = name.split(" ");
  const text = [file, ...params.map((param) => param.replace(/=true$/, ""))].join(" ");
  return text.length > 70 ? `${text.slice(0, 33)}…${text.slice(-36)}` : text;
}
