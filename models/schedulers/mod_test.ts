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
  for (const name of ["DDIMScheduler", "toString", undefined, 3]) {
    assert.throws(
      () => createScheduler({ _class_name: name }),
      /_class_name .* supported are FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler/,
    );
  }
});

Deno.test("createScheduler() refuses what is not an object", () => {
  for (const config of [null, [], "x", 1]) {
    assert.throws(() => createScheduler(config), /not a JSON object/);
  }
});
