import { strict as assert } from "node:assert";
import { deviceOptions } from "./device_flags.ts";

Deno.test("deviceOptions() gives what the library takes, and nothing that no flag named", () => {
  assert.deepEqual(deviceOptions({}), { tuning: "auto", offload: [], pinCpuMemory: false });
  assert.deepEqual(
    deviceOptions({
      maxVram: 5,
      textEncoderCpuOffload: true,
      vaeCpuOffload: true,
      pinCpuMemory: true,
      software: true,
      tune: false,
      gpuBackend: "dawn",
    }),
    {
      tuning: "cached",
      offload: ["textEncoder", "vae"],
      pinCpuMemory: true,
      maxVramBytes: 5,
      forceSoftware: true,
      gpuBackend: "dawn",
    },
  );
});

Deno.test("deviceOptions() says what several GPUs share", () => {
  assert.deepEqual(
    deviceOptions({ enableCfgParallel: true, ulyssesDegree: 2, ringDegree: 1 }).parallel,
    { guidance: true, ulysses: 2 },
  );
  assert.deepEqual(deviceOptions({ ringDegree: 3, splitLayers: 2 }).parallel, {
    ...{ ring: 3, layers: 2 },
  });
  assert.equal(deviceOptions({ ulyssesDegree: 1, ringDegree: 1 }).parallel, undefined);
});
