/** Samplers of rectified flows by their names. */
import { dpmpp2m } from "./dpm_steps.ts";
import { euler, eulerAncestral, heun, lcm } from "./euler_steps.ts";
import type { SamplerName } from "./names.ts";
import type { Process } from "./process.ts";
import { choose, fixedSchedule, type Schedule } from "./schedule.ts";
import type { Levels, Sampler } from "./steps.ts";
import { unipc } from "./unipc_steps.ts";

export const FLOW_SAMPLERS: Readonly<Partial<Record<SamplerName, Sampler>>> = {
  euler,
  euler_ancestral: eulerAncestral,
  heun,
  dpmpp_2m: dpmpp2m,
  uni_pc: (levels, process) => unipc(levels, process),
  lcm,
  dmd: lcm,
};

export function samplerSchedule(sampler: SamplerName, levels: Levels, process: Process): Schedule {
  return fixedSchedule(process, choose("sampler", FLOW_SAMPLERS, sampler)(levels, process));
}
