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
