import { strict as assert } from "node:assert";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";

const PATH = "/v1/images/generations";

Deno.test(`POST ${PATH} takes settings that the model has, and names those that it has not`, async () => {
  await using service = await testService({
    engine: new FakeEngine({
      info: { optionalSettings: ["flowShift", "guidanceEnd", "maxSequenceLength"] },
    }),
  });
  const body = {
    ...{ prompt: "a", flow_shift: 3, cfg_truncation: 0.5, max_sequence_length: 64 },
    ...{ true_cfg_scale: 4, guidance_limit: 1, strength: 0.5 },
  };
  const response = await service.post(PATH, body);
  assert.equal(response.status, 200);
  const [request] = service.engine.requests;
  assert.deepEqual(
    [request!.flowShift, request!.guidanceEnd, request!.maxSequenceLength, request!.trueCfgScale],
    [3, 0.5, 64, undefined],
  );
  const ignored = response.headers.get("x-ignored-fields")!.split(", ").sort();
  assert.deepEqual(ignored, ["guidance_limit", "strength", "true_cfg_scale"]);
  const refused = await service.post(PATH, { prompt: "a", cfg_truncation: 2 });
  const { error } = await refused.json();
  assert.deepEqual([refused.status, error.param], [400, "cfg_truncation"]);
  assert.equal(error.message, "cfg_truncation must be from 0 to 1, got 2");
});

Deno.test(`POST ${PATH} takes samplers and noise levels, and says which do not go together`, async () => {
  await using service = await testService({
    engine: new FakeEngine({ info: { optionalSettings: ["sampler", "scheduler", "sigmas"] } }),
  });
  for (const own of [{ sampler: "heun", scheduler: "beta" }, { sigmas: [1, 0.5] }]) {
    assert.equal((await service.post(PATH, { prompt: "a", ...own })).status, 200);
  }
  const [named, given] = service.engine.requests;
  assert.deepEqual([named!.sampler, named!.scheduler], ["heun", "beta"]);
  assert.deepEqual([given!.sigmas, given!.numInferenceSteps], [[1, 0.5], 2]);
  const refused = await service.post(PATH, { prompt: "a", sampler: "dmd", scheduler: "beta" });
  const { error } = await refused.json();
  assert.deepEqual([refused.status, error.param], [400, "sampler"]);
  assert.match(error.message, /^sampler dmd has its own sigmas; omit scheduler/);
});
