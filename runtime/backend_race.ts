/** Which WebGPU implementation is the faster one on this machine. */
import type { Device } from "./device/device.ts";
import { Graph } from "./graph/graph.ts";
import { linear } from "./ops/linear/mod.ts";
import { copyTo } from "./ops/copy/mod.ts";
import { planMemory } from "./program/plan.ts";
import { type ExecutableSet, instantiate } from "./program/executable.ts";
import { DeviceTensor } from "./device/device_tensor.ts";
import { runSequence } from "./program/work_queue.ts";
import type { GpuBackend } from "./device/backends/backend.ts";

const WIDTH = 1024;
/** Floating-point operations of a submit: about a twentieth of a second on a slow member of each class. */
const FLOPS = { gpu: 5e10, software: 5e8 };
/** Measurements of each; the best counts. */
const ROUNDS = 3;

/** Keeps the one on which two submits of matrix products, with the wait for them, take less time; Deno's where Dawn fails. */
export async function openFaster(open: (backend: GpuBackend) => Promise<Device>): Promise<Device> {
  const dawn = await timed(open, "dawn");
  if (!dawn.device) return await open("deno");
  const deno = await timed(open, "deno");
  if (!deno.device || dawn.milliseconds < deno.milliseconds) {
    deno.device?.destroy();
    return dawn.device;
  }
  dawn.device.destroy();
  return deno.device;
}

interface Contender {
  /** Absent where it did not open or did not work. */
  readonly device?: Device;
  /** `Infinity` without a device. */
  readonly milliseconds: number;
}

async function timed(
  open: (backend: GpuBackend) => Promise<Device>,
  backend: GpuBackend,
): Promise<Contender> {
  let device: Device | undefined;
  try {
    device = await open(backend);
    const milliseconds = await measure(device);
    device.resetPeak();
    return { device, milliseconds };
  } catch {
    device?.destroy();
    return { milliseconds: Infinity };
  }
}

async function measure(device: Device): Promise<number> {
  const flops = device.adapter.isSoftware ? FLOPS.software : FLOPS.gpu;
  const rows = Math.floor(flops / (2 * WIDTH ** 2));
  const tensors = {
    x: new DeviceTensor("x", [rows, WIDTH]),
    w: new DeviceTensor("w", [WIDTH, WIDTH], "f16"),
    y: new DeviceTensor("y", [rows, WIDTH]),
  };
  let programs: ExecutableSet | undefined;
  try {
    const graph = new Graph("race", device.target);
    copyTo(linear(graph.use(tensors.x), graph.use(tensors.w)), tensors.y);
    const plan = planMemory({ race: graph });
    for (const tensor of Object.values(tensors)) tensor.allocate(device);
    programs = await instantiate(plan, device);
    const race = programs.get("race");
    let least = Infinity;
    // The first round compiles.
    for (let round = 0; round <= ROUNDS; round++) {
      const start = performance.now();
      await runSequence(device, [{ programs: [race] }, { programs: [race] }]);
      if (round > 0) least = Math.min(least, performance.now() - start);
    }
    return least;
  } finally {
    programs?.destroy();
    for (const tensor of Object.values(tensors)) tensor.destroy();
  }
}
