/** Ops at sizes of real models, every variant that takes them: how near they come to what the device can do. */

import {
  type Choice,
  DeviceLostError,
  DeviceTensor,
  Graph,
  OutOfMemoryError,
  type Target,
} from "../../runtime/mod.ts";
import { ceilingShare } from "../ceilings.ts";
import { benchOf, LoadedOp, type OpCase, parseCase, specOf } from "../loaded_op.ts";
import { Stopwatch } from "../../runtime/program/stopwatch.ts";
import type { OpRow } from "../types.ts";
import { type Known, type SectionContext, timeLeft } from "./section.ts";

/** What the layers of Z-Image, klein and Wan multiply; the most telling first. */
export const LADDER: readonly string[] = [
  // Z-Image at 1024 x 1024 with 64 tokens of text: 4160 tokens of 3840.
  "linear:4160x10240x3840:bf16",
  "attention:4160x30x128",
  "conv2d:512x512x256x256:bf16",
  "linear:4160x10240x3840:q4_k",
  "linear:4160x10240x3840:q8_0",
  "linear:4160x10240x3840:f16",
  "linear:4160x10240x3840",
  "linear:4160x3840x10240:bf16",
  "linear:4160x11520x3840:bf16",
  "linear:4160x3840x3840:bf16",
  // Wan 1.3B at 832 x 480 x 81: 32760 tokens of 1536.
  "attention:32760x12x128",
  "linear:32760x8960x1536:bf16",
  "linear:32760x1536x8960:bf16",
  "linear:32760x4608x1536:bf16",
  "cross_attention:32760x512x12x128",
  "conv3d:4x480x832x96x96:bf16",
  "conv2d:1024x1024x128x128:bf16",
  // Prompts through Qwen3-4B.
  "linear:20x9728x2560:q4_k",
  "linear:20x9728x2560:bf16",
  "linear:512x9728x2560:q4_k",
  "matmul:4096x4096x4096",
  "rms_norm:4160x3840",
  "layer_norm:32760x1536",
  "group_norm:262144x256",
];

/** Runs of a variant, about: to warm up, and those that are measured. */
const RUNS = 6;
/** Share of the registers' rate that is expected. */
const USUAL = 0.25;
/** Part of an op's time that the variant in use may take; the others are measured as far as there is time. */
const USED_SHARE = 0.5;
/** What is scaled: a size, by its place in a spec, and what it stays a multiple of. */
const SCALED: Readonly<Record<string, readonly [number, number]>> = {
  conv2d: [0, 8],
  conv3d: [1, 8],
};
/** Rows, or tokens. */
const SCALED_ROWS = [0, 64] as const;
/** Longest single call, in milliseconds: desktops' drivers end what takes longer than two seconds. */
const MAX_CALL_MS = 800;

export async function measureOps(context: SectionContext<"ops">): Promise<boolean> {
  const { device, known } = context;
  using stopwatch = await Stopwatch.open(device);
  const rows: OpRow[] = [];
  const tell = () => context.found({ clock: stopwatch.clock, rows });
  for (const [i, spec] of LADDER.entries()) {
    if (timeLeft(context) < 0) return false;
    const slotMs = timeLeft(context) / (LADDER.length - i);
    await measureSpec(context, stopwatch, spec, slotMs, known, (row) => {
      rows.push(row);
      tell();
    });
  }
  return true;
}

async function measureSpec(
  context: SectionContext<"ops">,
  stopwatch: Stopwatch,
  spec: string,
  slotMs: number,
  known: Known,
  add: (row: OpRow) => void,
): Promise<void> {
  const { device, begin } = context;
  const whole = parseCase(spec);
  const { target } = device;
  const measured = known.tuning &&
    choiceOf(whole, { ...target, choices: known.tuning.choices });
  const tuned = measured?.reason === "measured" ? measured.variant : undefined;
  const callMs = Math.min(MAX_CALL_MS, USED_SHARE * slotMs / RUNS);
  const op = scaled(whole, callMs, known);
  // Variants that round more than is usual are measured, too; some may not take fewer rows.
  const taken = (each: OpCase) =>
    choiceOf(each, { ...target, operands: "int8" })?.candidates ?? [""];
  const variants = taken(whole).filter((variant) => taken(op).includes(variant));
  const usual = choiceOf(whole, target)?.variant ?? "";
  const rule = variants.includes(usual) ? usual : choiceOf(op, target)?.variant ?? "";
  const deadline = performance.now() + slotMs;
  const common = {
    spec,
    ...(specOf(op) !== spec && { scaled: specOf(op) }),
    flops: op.flops,
    bytes: op.bytes,
  };
  let bench: LoadedOp;
  try {
    begin(`${specOf(op)}: inputs`);
    bench = new LoadedOp(device, op);
    await device.wait();
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    const nothing = { kernels: [], ms: 0, isRule: false, isTuned: false };
    return add({ ...common, ...nothing, variant: "", error: error.message });
  }
  try {
    // What would be used comes first: the rest is measured as far as there is time.
    const used = tuned !== undefined && variants.includes(tuned) ? tuned : rule;
    const ordered = [used, ...variants.filter((variant) => variant !== used)];
    for (const variant of ordered) {
      if (performance.now() > deadline && variant !== used) break;
      begin(`${specOf(op)}${variant && ` as ${variant}`}`);
      const own = { ...common, variant, isRule: variant === rule, isTuned: variant === tuned };
      try {
        using run = await bench.prepare(variant || undefined);
        const ms = await stopwatch.time(run.program, { rounds: 3, deadline });
        const timed = { ...own, kernels: run.kernels, ms };
        const { flopsPerSecond, bytesPerSecond } = known;
        const share = flopsPerSecond && bytesPerSecond &&
          ceilingShare(timed, { ...known, flopsPerSecond, bytesPerSecond });
        add(share ? { ...timed, share } : timed);
      } catch (error) {
        if (error instanceof DeviceLostError) throw error;
        add({ ...own, kernels: [], ms: 0, error: (error as Error).message });
      }
    }
  } finally {
    bench[Symbol.dispose]();
  }
}

/** What would be chosen for an op; nothing where there is a single way. */
function choiceOf(op: OpCase, target: Target): Choice | undefined {
  const { op: name, bench } = benchOf(op.op);
  const heard: Choice[] = [];
  const graph = new Graph(name, { ...target, onChoice: (choice) => heard.push(choice) });
  bench.build(
    ...op.inputs.map((shape, i) =>
      graph.use(new DeviceTensor(`input ${i}`, shape, i === 1 ? op.weights : "f32"))
    ),
  );
  return heard.find((choice) => choice.op === name);
}

/** The op with as many rows as are expected to take some milliseconds. */
export function scaled(
  op: OpCase,
  callMs: number,
  { flopsPerSecond = 1e11 }: Pick<Known, "flopsPerSecond">,
): OpCase {
  const allowed = USUAL * flopsPerSecond * callMs / 1000;
  const [at, step] = SCALED[op.op] ?? SCALED_ROWS;
  let smaller = op;
  while (smaller.flops > allowed && smaller.sizes[at]! > step) {
    const sizes = [...smaller.sizes];
    const wanted = Math.ceil(sizes[at]! / 2 / step) * step;
    sizes[at] = Math.max(step, Math.min(wanted, sizes[at]! - step));
    smaller = parseCase(specOf({ ...op, shape: sizes.join("x") }));
  }
  return smaller;
}
