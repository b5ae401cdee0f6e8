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
