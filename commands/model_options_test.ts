import { strict as assert } from "node:assert";
import { valuesOf } from "./flag_command.ts";
import { GENERATE_FLAGS } from "./flags.ts";
import { deviceOptions, flagsOfModels, partsOf } from "./model_options.ts";
import { createProgram } from "./program.ts";

Deno.test("deviceOptions() gives what the library takes, and nothing that no flag named", () => {
  assert.deepEqual(deviceOptions({}), { tuning: "auto", offload: [], pinCpuMemory: false });
  assert.deepEqual(
    deviceOptions({
      maxVramBytes: 5,
      keepAliveMs: 90_000,
      textEncoderCpuOffload: true,
      vaeCpuOffload: true,
      pinCpuMemory: true,
      forceSoftware: true,
      tune: false,
      gpuBackend: "dawn",
    }),
    {
      tuning: "cached",
      offload: ["textEncoder", "vae"],
      pinCpuMemory: true,
      maxVramBytes: 5,
      keepAliveMs: 90_000,
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

Deno.test("partsOf() makes a part of each --controlnet and --ip-adapter, and refuses a fifth", () => {
  const parts = { controlnet: "a", controlnet2: "b" };
  assert.deepEqual(partsOf({ vae: "c", controlnet: ["a", "b"] }), { vae: "c", ...parts });
  assert.deepEqual(partsOf({ ipAdapter: ["a", "b"] }), { ipAdapter: "a", ipAdapter2: "b" });
  assert.throws(
    () => partsOf({ ipAdapter: ["a", "b", "c", "d", "e"] }),
    /Cannot load 5 IP-Adapters: a model takes 4/,
  );
  assert.throws(
    () => partsOf({ controlnet: ["a", "b", "c", "d", "e"] }),
    /Cannot load 5 ControlNets: a model takes 4/,
  );
});

Deno.test("flagsOfModels() names flags that were given, and no default", () => {
  const given = (...args: string[]) => {
    const generate = createProgram(() => {}).commands.find((one) => one.name() === "generate")!;
    generate.action(() => {});
    generate.parse(args, { from: "user" });
    return flagsOfModels(valuesOf(generate, GENERATE_FLAGS));
  };
  assert.deepEqual(given(), []);
  assert.deepEqual(given("--vae", "a", "--max-vram", "2G", "--software"), [
    ...["--vae", "--software", "--max-vram"],
  ]);
});
