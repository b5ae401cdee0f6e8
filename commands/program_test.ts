import { strict as assert } from "node:assert";
import { normalizeArgs, valuesOf } from "./flag_command.ts";
import { SERVE_FLAGS, type ServeFlags } from "./flags.ts";
import { createProgram } from "./program.ts";

/** The flags of `serve` as they are read, without serving. */
function serveFlags(...args: string[]): ServeFlags {
  const program = createProgram(() => {});
  const serve = program.commands.find((command) => command.name() === "serve")!;
  serve.action(() => {});
  program.parse(["serve", ...args], { from: "user" });
  return valuesOf(serve, SERVE_FLAGS);
}

Deno.test("serve takes the flags of the specification, and port 30000 where none is named", () => {
  const flags = serveFlags(
    ...["--model-path", "m", "--served-model-name", "s", "--model-id", "i", "--num-gpus", "2"],
    ...["--prompt-enhancer-config", "c.json", "--text-encoder-cpu-offload", "--pin-cpu-memory"],
    ...["--ulysses-degree", "2", "--ring-degree", "2"],
    ...["--gpus", "0,2", "--pin", "small=0", "--pin", "org/large=0,2"],
  );
  const { modelPath, servedModelName, modelId, promptEnhancerConfig, port } = flags;
  assert.deepEqual([modelPath, servedModelName, modelId], [["m"], "s", "i"]);
  assert.deepEqual([promptEnhancerConfig, port], ["c.json", 30000]);
  assert.ok(flags.textEncoderCpuOffload && flags.pinCpuMemory);
  assert.deepEqual(flags.gpus, [0, 2]);
  assert.deepEqual(flags.pins, { small: [0], "org/large": [0, 2] });
  assert.deepEqual([flags.numGpus, flags.ulyssesDegree, flags.ringDegree], [2, 2, 2]);
});

Deno.test("serve keeps uploads beside results where nothing is said", () => {
  const flags = serveFlags();
  assert.equal(flags.inputSavePath, undefined);
  assert.ok(!flags.resumeJobs && !flags.allowPrivateUrls);
});

Deno.test("serve reads how results are kept and what is run again", () => {
  const flags = serveFlags(
    ...[
      "--retain",
      "12h",
      "--resume-jobs",
      "--input-save-path",
      "in",
      "--allow-private-urls=false",
    ],
  );
  assert.equal(flags.retainMs, 12 * 60 * 60 * 1000);
  assert.equal(flags.resumeJobs, true);
  assert.equal(flags.inputSavePath, "in");
  assert.equal(flags.allowPrivateUrls, false);
  assert.equal(serveFlags("--retain", "0").retainMs, 0);
});

Deno.test("serve reads how the GPU's memory is used", () => {
  const flags = serveFlags("--max-vram", "4GB", "--vae-cpu-offload", "--keep-alive", "90");
  assert.deepEqual([flags.maxVramBytes, flags.vaeCpuOffload, flags.keepAliveMs], [
    4 * 2 ** 30,
    true,
    90_000,
  ]);
  assert.equal(flags.pinCpuMemory, false);
});

Deno.test("serve refuses a time without a unit", () => {
  assert.throws(() => serveFlags("--retain", "7"), /length of time such as 30m, 12h or 7d/);
});

Deno.test("plan takes what follows a switch for the model, unless it is true or false", () => {
  const models = [
    ["--json", "m"],
    ["--pin_cpu_memory", "--json", "m", "--size", "64x64"],
    ["--json", "true", "m"],
    ["--size", "--json", "--json", "m"],
    ["--json", "--", "m"],
    ["m", "--json"],
  ].map((args) => {
    const program = createProgram(() => {});
    const plan = program.commands.find((command) => command.name() === "plan")!;
    plan.action(() => {});
    program.parse(normalizeArgs(["plan", ...args]), { from: "user" });
    assert.equal(plan.opts().json, true, args.join(" "));
    return plan.args;
  });
  assert.deepEqual(models, Array(models.length).fill(["m"]));
});

Deno.test("serve, which takes no words, says that the value of a switch is true or false", () => {
  assert.equal(serveFlags("--resume-jobs", "no").resumeJobs, false);
  assert.throws(() => serveFlags("--resume-jobs", "maybe"), /It must be true or false/);
});

Deno.test("commands refuse a second prompt, mask or video, and take the last of other values", () => {
  const parse = (...args: string[]) => {
    const generate = createProgram(() => {}).commands.find((one) => one.name() === "generate")!;
    generate.action(() => {});
    return generate.parse(args, { from: "user" }).opts();
  };
  for (const flag of ["--prompt", "--mask"]) {
    const message = `Cannot use ${flag} twice: it takes one value`;
    assert.throws(() => parse(flag, "a", flag, "b"), { message });
  }
  assert.deepEqual(parse("--control", "a", "--control", "b")["control"], ["a", "b"]);
  assert.equal(parse("--prompt", "a", "--size", "1x1", "--size", "2x2")["size"], "2x2");
});
