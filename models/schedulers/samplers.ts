/** Samplers of rectified flows by their names. */
import { dpmpp, dpmpp2mSde, dpmpp3mSde } from "./dpm_steps.ts";
import { euler, eulerAncestral, heun, lcm } from "./euler_steps.ts";
import { erSde, lms, resMultistep } from "./multistep_steps.ts";
import type { SamplerName } from "./names.ts";
import type { Process } from "./process.ts";
import { choose, fixedSchedule, type Schedule } from "./schedule.ts";
import type { Levels, Sampler } from "./steps.ts";
import { dpm2, dpm2Ancestral, dpmpp2sAncestral } from "./two_stage_steps.ts";
import { unipc } from "./unipc_steps.ts";

export const FLOW_SAMPLERS: Readonly<Partial<Record<SamplerName, Sampler>>> = {
  euler,
  euler_ancestral: eulerAncestral,
  heun,
  dpm_2: dpm2,
  dpm_2_ancestral: dpm2Ancestral,
  lms,
  dpmpp_2s_ancestral: dpmpp2sAncestral,
  dpmpp_2m: (levels, process) => dpmpp(levels, process),
  dpmpp_2m_sde: dpmpp2mSde,
  dpmpp_3m_sde: dpmpp3mSde,
  uni_pc: (levels, process) => unipc(levels, process),
  ddim: euler,
  er_sde: erSde,
  res_multistep: resMultistep,
  lcm,
  dmd: lcm,
};

export function samplerSchedule(sampler: SamplerName, levels: Levels, process: Process): Schedule {
  return fixedSchedule(process, choose("sampler", FLOW_SAMPLERS, sampler)(levels, process));
}
