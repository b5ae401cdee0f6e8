/** What the device can do at most, and what launches, waits and transfers cost. */

import { type Device, Graph, instantiate, planMemory } from "../../runtime/mod.ts";
import { emptyKernel } from "../../runtime/probes.ts";
import {
  probeArithmetic,
  probeCopies,
  probeMatrix,
  probeReads,
  probeWorkgroupReads,
  timeWork,
  withResidents,
} from "../ceilings.ts";
import { LoadedOp, parseCase } from "../loaded_op.ts";
import { Stopwatch } from "../../runtime/program/stopwatch.ts";
import type { ProbesData, Transfer } from "../types.ts";
import { type SectionContext, timeLeft } from "./section.ts";

/** What is read again and again, in bytes, by class of adapter: from what a core's cache holds to what the largest do. */
const READ_SIZES = {
  gpu: [18, 20, 22, 24, 25, 26, 27, 28].map((bits) => 2 ** bits),
  cpu: [18, 20, 23].map((bits) => 2 ** bits),
};
/** Bytes that are written and read back. */
const TRANSFERS = [2 ** 12, 2 ** 16, 2 ** 20, 2 ** 24, 2 ** 26];
/** Launches whose encoding is timed, and submits. */
const ENCODED = 1000;
const SUBMITS = 200;
const ROUNDS = 3;
/** Ops whose first compilation is timed: of each kind of kernel one. */
const COMPILED = [
  "linear:512x512x512:bf16",
  "linear:512x512x512:q4_k",
  "attention:512x2x128",
  "conv2d:64x64x64x64:bf16",
];

export async function probe(context: SectionContext<"probes">): Promise<boolean> {
  const { device, begin } = context;
  const { features, schedule } = device.target;
  using stopwatch = await Stopwatch.open(device);
  const { clock, idleMs } = stopwatch;
  let data: ProbesData = {
    clock,
    idleMs,
    arithmetic: {},
    reads: [],
    uploads: [],
    readBacks: [],
    compilations: [],
  };
  const arithmetic = async (type: "f32" | "f16" | "i8") => ({
    arithmetic: { ...data.arithmetic, [type]: await probeArithmetic(device, stopwatch, type) },
  });
  const works: Readonly<Record<string, () => Promise<Partial<ProbesData>>>> = {
    "f32 arithmetic": () => arithmetic("f32"),
    "reads": async () => ({ reads: await probeReads(device, stopwatch, READ_SIZES[schedule]) }),
    "copies": async () => ({
      copies: await probeCopies(device, idleMs, data.reads[0]?.bytes ?? 2 ** 26),
    }),
    "matrix units": async () => {
      const matrix = await probeMatrix(device, stopwatch);
      return matrix === undefined ? {} : { arithmetic: { ...data.arithmetic, matrix } };
    },
    "f16 arithmetic": async () => features.f16 ? await arithmetic("f16") : {},
    "int8 arithmetic": () => arithmetic("i8"),
    "workgroup memory": async () => ({
      workgroupReads: await probeWorkgroupReads(device, stopwatch),
    }),
    "launches": () => probeLaunches(device, stopwatch),
    "uploads": async () => ({ uploads: await probeUploads(device, idleMs) }),
    "read-backs": async () => ({ readBacks: await probeReadBacks(device) }),
    "compilations": async () => ({ compilations: await probeCompilations(device) }),
  };
  for (const [name, work] of Object.entries(works)) {
    if (timeLeft(context) < 0) return false;
    begin(name);
    data = { ...data, ...await work() };
    context.found(data);
  }
  return true;
}

async function probeLaunches(
  device: Device,
  stopwatch: Stopwatch,
): Promise<Pick<ProbesData, "launchUs" | "encodeUs" | "submitUs">> {
  return await withResidents(device, [[4]], async ([y]) => {
    const graph = new Graph("empty", device.target);
    graph.dispatch({
      kernel: emptyKernel(),
      buffers: { y: graph.use(y!) },
      params: { value: 1 },
      workgroups: [1, 1, 1],
    });
    using programs = await instantiate(planMemory({ main: graph }), device);
    const program = programs.get("main");
    const launchUs = await stopwatch.time(program) * 1000;
    let encodeUs = Infinity;
    for (let round = 0; round < ROUNDS; round++) {
      const start = performance.now();
      const commands = program.encode(0, ENCODED);
      encodeUs = Math.min(encodeUs, (performance.now() - start) * 1000 / ENCODED);
      device.submit([commands]);
      await device.wait();
    }
    const submitMs = await timeWork(stopwatch.idleMs, () => {
      for (let i = 0; i < SUBMITS; i++) device.submit([program.encode(0)]);
      return device.wait();
    });
    return { launchUs, encodeUs, submitUs: submitMs * 1000 / SUBMITS };
  });
}

async function probeUploads(device: Device, idleMs: number): Promise<Transfer[]> {
  const bytes = crypto.getRandomValues(new Uint8Array(65536));
  const data = new Uint8Array(TRANSFERS.at(-1)!);
  for (let at = 0; at < data.length; at += bytes.length) data.set(bytes, at);
  return await timeTransfers(device, async (buffer, size) => {
    // Small ones are many, so that the wait does not count.
    const times = Math.max(1, Math.ceil(2 ** 20 / size));
    const ms = await timeWork(idleMs, () => {
      for (let i = 0; i < times; i++) device.write(buffer, 0, data.subarray(0, size));
      device.flush();
      return device.wait();
    });
    return ms / times;
  });
}

/** From asking until the bytes are in memory, with the wait in it. */
function probeReadBacks(device: Device): Promise<Transfer[]> {
  return timeTransfers(
    device,
    (buffer, size) => timeWork(0, () => device.read([{ buffer, offset: 0, size }])),
  );
}

async function timeTransfers(
  device: Device,
  time: (buffer: GPUBuffer, size: number) => Promise<number>,
): Promise<Transfer[]> {
  const buffer = device.createBuffer("transfer", TRANSFERS.at(-1)!);
  try {
    const transfers: Transfer[] = [];
    for (const bytes of TRANSFERS) transfers.push({ bytes, ms: await time(buffer, bytes) });
    return transfers;
  } finally {
    device.destroyBuffer(buffer);
  }
}

/** Kernels that this process compiles for the first time. */
async function probeCompilations(device: Device): Promise<ProbesData["compilations"]> {
  const times: ProbesData["compilations"][number][] = [];
  for (const spec of COMPILED) {
    using bench = new LoadedOp(device, parseCase(spec));
    const start = performance.now();
    using run = await bench.prepare();
    times.push({ spec, kernel: run.kernels.at(-1)!, ms: performance.now() - start });
  }
  return times;
}
