/** Samplers by their names, for any process. */
import { dpmpp2m } from "./dpm_steps.ts";
import { euler, eulerAncestral, heun, lcm } from "./euler_steps.ts";
import type { FlowSampler } from "./names.ts";
import type { Process } from "./process.ts";
import { fixedSchedule, type Schedule } from "./schedule.ts";
import type { Levels, Sampler } from "./steps.ts";
import { unipc } from "./unipc_steps.ts";

const SAMPLERS: Readonly<Record<FlowSampler, Sampler>> = {
  euler,
  euler_ancestral: eulerAncestral,
  heun,
  dpmpp_2m: dpmpp2m,
  uni_pc: (levels, process) => unipc(levels, process),
  lcm,
  dmd: lcm,
};

export function samplerSchedule(sampler: FlowSampler, levels: Levels, process: Process): Schedule {
  return fixedSchedule(process, SAMPLERS[sampler](levels, process));
}
