import assert from "node:assert/strict";
import {
  BASELINE_TARGET,
  elementCount,
  instantiate,
  openDevice,
  planMemory,
  Resident,
  runSequence,
} from "../../runtime/mod.ts";
import { addNoise, applyStep, createScheduler, type Schedule } from "../schedulers/mod.ts";
import { SolverGraphs, type SolverState } from "./solver.ts";

const SHAPE = [1, 3, 1, 5, 7];

function scheduleOf(name: string, steps: number, settings: object = {}): Schedule {
  return createScheduler({ _class_name: name, ...settings }).setTimesteps(steps);
}

const UNIPC = { prediction_type: "flow_prediction", use_flow_sigmas: true, flow_shift: 3 };
const SCHEDULES: Readonly<Record<string, (steps: number) => Schedule>> = {
  "flow-match Euler": (steps) => scheduleOf("FlowMatchEulerDiscreteScheduler", steps),
  "UniPC of order 2": (steps) => scheduleOf("UniPCMultistepScheduler", steps, UNIPC),
  "UniPC of order 3": (steps) =>
    scheduleOf("UniPCMultistepScheduler", steps, { ...UNIPC, solver_order: 3 }),
};

/** What a model might give: fixed values of about 1 that differ between steps and elements. */
function outputOf(step: number): Float32Array {
  return Float32Array.from(
    { length: elementCount(SHAPE) },
    (_, i) => Math.sin(1 + 3 * step + 0.7 * i),
  );
}

/** The weights of the two outputs: what guidance makes of a prompt's and a negative prompt's. */
const OUTPUT_WEIGHTS = [2.5, -1.5];

function residents(): SolverState & { conditional: Resident; unconditional: Resident } {
  const conditional = new Resident("conditional", SHAPE);
  const unconditional = new Resident("unconditional", SHAPE);
  return {
    sample: new Resident("sample", SHAPE),
    conditional,
    unconditional,
    outputs: (graph) => [graph.use(conditional), graph.use(unconditional)],
  };
}

for (const [name, make] of Object.entries(SCHEDULES)) {
  Deno.test(`SolverGraphs.step() does on the device what applyStep() does: ${name}`, async () => {
    const schedule = make(9);
    const device = await openDevice();
    try {
      const state = residents();
      const solver = new SolverGraphs(schedule, state, device.target);
      const { sample, conditional, unconditional } = state;
      for (const resident of [sample, conditional, unconditional, ...solver.residents]) {
        resident.allocate(device);
      }
      const programs = await instantiate(planMemory(solver.graphs), device);
      const tensors: Record<string, Float64Array> = {
        sample: Float64Array.from(outputOf(-1)),
        output: new Float64Array(elementCount(SHAPE)),
      };
      for (let i = 0; i < schedule.history; i++) {
        tensors[`history${i}`] = new Float64Array(elementCount(SHAPE));
      }
      state.sample.write(tensors["sample"]!);
      const steps = Array.from(schedule.timesteps, (_, i) => {
        const { programs: [program], before } = solver.step(i, programs, OUTPUT_WEIGHTS);
        return {
          programs: [program!],
          before: () => {
            conditional.write(outputOf(i));
            unconditional.write(outputOf(i + 0.5));
            before();
          },
        };
      });
      await runSequence(device, steps);
      steps.forEach((_, i) => {
        const [c, u] = [outputOf(i), outputOf(i + 0.5)];
        tensors["output"]!.set(
          c.map((v, k) => OUTPUT_WEIGHTS[0]! * v + OUTPUT_WEIGHTS[1]! * u[k]!),
        );
        applyStep(schedule.step(i), tensors);
      });
      const actual = await state.sample.read();
      actual.forEach((value, i) => {
        const expected = tensors["sample"]![i]!;
        assert.ok(Math.abs(value - expected) < 1e-5, `element ${i}: ${value}, not ${expected}`);
      });
    } finally {
      device.destroy();
    }
  });

  Deno.test(`SolverGraphs traces no more graphs for more steps: ${name}`, () => {
    const counts = [12, 60].map((steps) =>
      Object.keys(new SolverGraphs(make(steps), residents(), BASELINE_TARGET).graphs).length
    );
    assert.equal(counts[0], counts[1]);
    assert.ok(counts[0]! <= 8, `${counts[0]} graphs`);
  });
}

Deno.test("SolverGraphs refuses a schedule that needs fresh noise", () => {
  const schedule: Schedule = {
    timesteps: Float64Array.of(500),
    sigmas: Float64Array.of(0.5, 0),
    history: 0,
    needsNoise: true,
    step: () => addNoise(0.5),
  };
  assert.throws(
    () => new SolverGraphs(schedule, residents(), BASELINE_TARGET),
    { name: "TypeError", message: /it uses "noise"/ },
  );
});
