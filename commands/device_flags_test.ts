import { strict as assert } from "node:assert";
import { createProgram } from "./program.ts";
import { deviceOptions } from "./device_flags.ts";
import { flagsOfModels } from "./part_flags.ts";

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

Deno.test("flagsOfModels() names flags that were given, and no default", () => {
  const given = (...args: string[]) => {
    const generate = createProgram(() => {}).commands.find((one) => one.name() === "generate")!;
    generate.action(() => {});
    return flagsOfModels(generate.parse(args, { from: "user" }).opts());
  };
  assert.deepEqual(given(), []);
  assert.deepEqual(given("--vae", "a", "--max-vram", "2G", "--software"), [
    ...["vae", "maxVram", "software"],
  ]);
});
