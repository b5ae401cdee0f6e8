import assert from "node:assert/strict";
import { createScheduler, FlowMatchEulerScheduler, UniPcScheduler } from "./mod.ts";

Deno.test("createScheduler() follows _class_name", () => {
  const flow = createScheduler({ _class_name: "FlowMatchEulerDiscreteScheduler", shift: 3 });
  assert.ok(flow instanceof FlowMatchEulerScheduler);
  const unipc = createScheduler({
    _class_name: "UniPCMultistepScheduler",
    prediction_type: "flow_prediction",
    use_flow_sigmas: true,
  });
  assert.ok(unipc instanceof UniPcScheduler);
});

Deno.test("createScheduler() names the class it does not know and those it does", () => {
  for (const name of ["KarrasVeScheduler", "toString", undefined, 3]) {
    assert.throws(
      () => createScheduler({ _class_name: name }),
      /_class_name .* supported are .*DDIMScheduler.*FlowMatchEulerDiscreteScheduler/,
    );
  }
});

Deno.test("createScheduler() refuses what is not an object", () => {
  for (const config of [null, [], "x", 1]) {
    assert.throws(() => createScheduler(config), /not a JSON object/);
  }
});

Deno.test("setTimesteps() takes a shift in place of the configured one", () => {
  const cases = [
    ["FlowMatchEulerDiscreteScheduler", "shift", {}],
    ["UniPCMultistepScheduler", "flow_shift", {
      use_flow_sigmas: true,
      prediction_type: "flow_prediction",
    }],
  ] as const;
  for (const [name, key, others] of cases) {
    const make = (shift: number) => createScheduler({ _class_name: name, [key]: shift, ...others });
    const { sigmas, timesteps } = make(1).setTimesteps(7, { shift: 5 });
    const expected = make(5).setTimesteps(7);
    assert.deepEqual([sigmas, timesteps], [expected.sigmas, expected.timesteps]);
    assert.throws(() => make(1).setTimesteps(7, { shift: 0 }), /shift 0: it must be from 0.001/);
  }
  const dynamic = createScheduler({
    _class_name: "FlowMatchEulerDiscreteScheduler",
    use_dynamic_shifting: true,
  });
  assert.throws(() => dynamic.setTimesteps(7, { mu: 1, shift: 3 }), /follows from the size/);
});
