import { strict as assert } from "node:assert";
import { join } from "node:path";
import { LoraError } from "../../models/lora/lora_error.ts";
import { explainEngineFailure } from "./engine_failure.ts";

Deno.test("explainEngineFailure() calls LoRAs what the client called them", () => {
  const lora = { strength: 1, target: "all", mode: "auto" } as const;
  const loras = [{ ...lora, path: "ink", file: join("/srv", "loras", "ink.safetensors") }];
  for (const name of ["ink.safetensors", "adapter_config.json"]) {
    const path = join("/srv", "loras", name);
    const error = new LoraError(`Cannot read "${path}": it does not exist`, [
      `${path} is not there`,
    ]);
    assert.throws(() => explainEngineFailure(error, loras), (refusal: Error) => {
      assert.equal(refusal.name, "ApiError");
      assert.ok(!JSON.stringify([refusal.message, refusal]).includes("srv"), refusal.message);
      return true;
    });
  }
});

Deno.test("explainEngineFailure() calls settings what a request calls them", () => {
  const error = new RangeError("Cannot finish: it gave NaN, because guidanceScale is 1e+308");
  assert.throws(() => explainEngineFailure(error), {
    failure: "refused",
    message: "Cannot finish: it gave NaN, because guidance_scale is 1e+308",
  });
});
