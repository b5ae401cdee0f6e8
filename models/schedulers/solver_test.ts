import assert from "node:assert/strict";
import { BASELINE_TARGET, elementCount, writing } from "../../runtime/mod.ts";
import { Session } from "../memory/session.ts";
import { SessionRunner } from "../memory/session_runner.ts";
import { applyStep } from "../../tests/support/apply_step.ts";
import { createScheduler, type SamplerName, type Schedule } from "./mod.ts";
import { Solver } from "./solver.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

const SHAPE = [1, 3, 1, 5, 7];

function scheduleOf(name: string, steps: number, settings: object = {}): Schedule {
  return createScheduler({ _class_name: name, ...settings }).setTimesteps(steps);
}

const UNIPC = { prediction_type: "flow_prediction", use_flow_sigmas: true, flow_shift: 3 };
const STABLE_DIFFUSION = {
  ...{ beta_start: 0.00085, beta_end: 0.012, beta_schedule: "scaled_linear" },
  ...{ clip_sample: false, skip_prk_steps: true },
};
const SCHEDULES: Readonly<Record<string, (steps: number) => Schedule>> = {
  "flow-match Euler": (steps) => scheduleOf("FlowMatchEulerDiscreteScheduler", steps),
  "UniPC of order 2": (steps) => scheduleOf("UniPCMultistepScheduler", steps, UNIPC),
  "UniPC of order 3": (steps) =>
    scheduleOf("UniPCMultistepScheduler", steps, { ...UNIPC, solver_order: 3 }),
  "PNDM": (steps) => scheduleOf("PNDMScheduler", steps, { ...STABLE_DIFFUSION }),
  "DDIM with velocity": (steps) =>
    scheduleOf("DDIMScheduler", steps, { ...STABLE_DIFFUSION, prediction_type: "v_prediction" }),
  "Heun": (steps) => sampled("heun", steps),
  "DPM++ 2M": (steps) => sampled("dpmpp_2m", steps),
  "LCM": (steps) => sampled("lcm", steps),
  "ancestral Euler": (steps) => sampled("euler_ancestral", steps),
  ...Object.fromEntries(
    ([
      "dpm_2_ancestral",
      "dpmpp_sde",
      "dpmpp_3m_sde",
      "lms",
      "deis",
      "er_sde",
      "res_multistep",
    ] as const)
      .map((sampler) => [sampler, (steps: number) => diffused(sampler, steps)]),
  ),
};

function diffused(sampler: SamplerName, steps: number): Schedule {
  const config = { _class_name: "EulerDiscreteScheduler", ...STABLE_DIFFUSION };
  return createScheduler({ ...config, prediction_type: "v_prediction" })
    .setTimesteps(steps, { sampler });
}

function sampled(sampler: SamplerName, steps: number): Schedule {
  return createScheduler({ _class_name: "FlowMatchEulerDiscreteScheduler" })
    .setTimesteps(steps, { sampler });
}

/** What a model might give: fixed values of about 1 that differ between steps and elements. */
function outputOf(step: number): Float32Array {
  return Float32Array.from(
    { length: elementCount(SHAPE) },
    (_, i) => Math.sin(1 + 3 * step + 0.7 * i),
  );
}

/** The weights of the two outputs: what guidance makes of a prompt's and a negative prompt's. */
const OUTPUT_WEIGHTS = [2.5, -1.5];

/** A session that has the solver alone, with the tensors that it works on. */
function trace(schedule: Schedule, target = BASELINE_TARGET) {
  const session = new Session(target);
  const stage = session.stage("denoise");
  const sample = stage.tensor("sample", SHAPE);
  const conditional = stage.tensor("conditional", SHAPE);
  const unconditional = stage.tensor("unconditional", SHAPE);
  const noise = stage.tensor("noise", SHAPE);
  const solver = new Solver(stage, schedule, {
    ...{ sample, outputs: [conditional, unconditional], noise },
  });
  return { session, solver, sample, conditional, unconditional, noise };
}

for (const [name, make] of Object.entries(SCHEDULES)) {
  Deno.test(`Solver.call() does on the device what applyStep() does: ${name}`, async () => {
    const schedule = make(9);
    const device = await openTestDevice();
    try {
      const { session, solver, sample, conditional, unconditional, noise } = trace(
        schedule,
        device.target,
      );
      const runner = new SessionRunner(session, {});
      await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
      const tensors: Record<string, Float64Array> = {
        sample: Float64Array.from(outputOf(-1)),
        output: new Float64Array(elementCount(SHAPE)),
        noise: new Float64Array(elementCount(SHAPE)),
      };
      for (let i = 0; i < schedule.history; i++) {
        tensors[`history${i}`] = new Float64Array(elementCount(SHAPE));
      }
      sample.write(tensors["sample"]!);
      await runner.run(async (queue) => {
        for (let i = 0; i < schedule.timesteps.length; i++) {
          await queue.run([
            writing(conditional, outputOf(i)),
            writing(unconditional, outputOf(i + 0.5)),
            ...schedule.needsNoise ? [writing(noise, outputOf(i + 0.25))] : [],
            solver.call(i, OUTPUT_WEIGHTS),
          ]);
          const [c, u] = [outputOf(i), outputOf(i + 0.5)];
          tensors["output"]!.set(
            c.map((v, k) => OUTPUT_WEIGHTS[0]! * v + OUTPUT_WEIGHTS[1]! * u[k]!),
          );
          tensors["noise"]!.set(outputOf(i + 0.25));
          applyStep(schedule.step(i), tensors);
        }
      });
      const actual = await sample.read();
      actual.forEach((value, i) => {
        const expected = tensors["sample"]![i]!;
        assert.ok(Math.abs(value - expected) < 1e-5, `element ${i}: ${value}, not ${expected}`);
      });
    } finally {
      device.destroy();
    }
  });

  Deno.test(`Solver traces no more programs for more steps: ${name}`, () => {
    const counts = [24, 60].map((steps) => trace(make(steps)).session.stages[0]!.programs.size);
    assert.equal(counts[0], counts[1]);
    assert.ok(counts[0]! <= 8, `${counts[0]} programs`);
  });
}
