import { strict as assert } from "node:assert";
import type { Flags } from "../generation/flag.ts";
import { runCompletion } from "./completion.ts";
import { UsageError } from "./failure.ts";
import * as tables from "./flags.ts";
import { type FlagTables, ownDefaults, variableOf } from "./own_defaults.ts";

const TABLES: FlagTables = new Map<string, Flags>([
  ["generate", tables.GENERATE_FLAGS],
  ["serve", tables.SERVE_FLAGS],
  ["quantize", tables.QUANTIZE_FLAGS],
]);

/** The defaults of a command with a file and variables. */
async function defaultsOf(
  command: string,
  config: unknown,
  variables: Readonly<Record<string, string>> = {},
): Promise<Record<string, unknown>> {
  const path = await Deno.makeTempFile({ suffix: ".json" });
  try {
    await Deno.writeTextFile(path, JSON.stringify(config));
    const own = await ownDefaults(command, TABLES, (name) => variables[name], path);
    return Object.fromEntries([...own].map(([row, { value }]) => [row, value]));
  } finally {
    await Deno.remove(path);
  }
}

Deno.test("ownDefaults() reads flags as the command line does, and what is nearest wins", async () => {
  const config = {
    "model-path": "z-image-turbo",
    steps: 8,
    "max-vram": "6G",
    quality: "high",
    fragmented: true,
    "no-tune": true,
    sigmas: [1, "0.5"],
    generate: { "num_inference_steps": 9 },
    serve: { port: 9000, "cors-origin": ["http://a.example", "http://b.example"] },
  };
  assert.deepEqual(await defaultsOf("generate", config, { DENOISE_MAX_VRAM: "8G" }), {
    modelPath: "z-image-turbo",
    numInferenceSteps: 9,
    maxVramBytes: 8 * 2 ** 30,
    quality: "high",
    fragmented: true,
    tune: false,
    sigmas: [1, 0.5],
  });
  const serve = await defaultsOf("serve", config, { DENOISE_API_KEY: "k", DENOISE_PORT: "" });
  assert.deepEqual(serve, {
    modelPath: ["z-image-turbo"],
    maxVramBytes: 6 * 2 ** 30,
    tune: false,
    port: 9000,
    corsOrigins: ["http://a.example", "http://b.example"],
    apiKeys: ["k"],
  });
  assert.deepEqual(await defaultsOf("quantize", config), {});
});

Deno.test("ownDefaults() names the place of what is wrong", async () => {
  const cases: [unknown, Record<string, string>, RegExp][] = [
    [{ stepz: 1 }, {}, /config|json: no command has a flag "stepz" with a default/],
    [{ prompt: "a" }, {}, /no command has a flag "prompt" with a default/],
    [{ serve: { steps: 1 } }, {}, /serve has no flag "steps" with a default/],
    [{ steps: "many" }, {}, /^Cannot use "many" of .*\.json: It must be an integer/],
    [{ quality: "best" }, {}, /^Cannot use "best" of .*: it must be one of exact, lossless, high/],
    [{ "max-vram": { a: 1 } }, {}, /it must be a text or a number/],
    [{ "no-tune": "perhaps" }, {}, /It must be true or false/],
    [{}, { DENOISE_SAMPLER: "x" }, /^Cannot use "x" of DENOISE_SAMPLER: it must be one of/],
  ];
  for (const [config, variables, words] of cases) {
    await assert.rejects(defaultsOf("generate", config, variables), (error) => {
      assert.ok(error instanceof UsageError, String(error));
      assert.match(error.message, words);
      return true;
    });
  }
});

Deno.test("variables of flags stand for nothing else", () => {
  const others = ["CACHE", "CONFIG", "DAWN", "DENO", "INSTALL", "RECORD", "SLOW", "SYSTEM_ROOT"];
  for (const table of TABLES.values()) {
    for (const [row, flag] of Object.entries(table)) {
      const variable = variableOf(row, flag);
      assert.ok(!others.some((other) => variable === `DENOISE_${other}`), variable);
    }
  }
});

// A program that is missing makes output() itself throw.
const hasBash = await Promise.try(() =>
  new Deno.Command("bash", { args: ["--version"], stdout: "null" }).output()
).then(({ success }) => success, () => false);

Deno.test({
  name: `the script of bash completes commands, flags, choices, models, parts and LoRAs${
    hasBash ? "" : ": no bash here"
  }`,
  ignore: !hasBash,
  fn: testBash,
});

async function testBash() {
  const printed: string[] = [];
  const { log } = console;
  console.log = (line) => printed.push(line);
  try {
    await runCompletion("bash", [["generate", "x"], ["serve", "y"]], TABLES, {
      models: ["mine"],
      cached: ["org/name"],
    });
  } finally {
    console.log = log;
  }
  const cases = [
    [["g"], ["generate"]],
    [["generate", "--num-inf"], ["--num-inference-steps"]],
    [["generate", "--quality", "l"], ["lossless"]],
    [["generate", "-m", "z-image-t"], ["z-image-turbo"]],
    [["serve", "--controlnet", "control_v11p_sd15_ca"], ["control_v11p_sd15_canny"]],
    [["generate", "--upscaler", ""], ["realesrgan_x4plus"]],
    [["generate", "--frame-interpolator", "rife_v4.26"], ["rife_v4.26"]],
    [["generate", "--tiny-decoder", "taef"], ["taef1"]],
    [["generate", "--lora", "o"], ["outline"]],
    [["run", "min"], ["mine"]],
    [["pull", "reales"], ["realesrgan_x4plus"]],
    [["rm", "taef1", "org"], ["org/name"]],
    [["completion", "f"], ["fish"]],
    [["help", "gen"], ["generate"]],
  ];
  const calls = cases.map(([words]) =>
    `COMP_WORDS=(denoise ${words!.map((word) => `"${word}"`).join(" ")}); COMP_CWORD=${
      words!.length
    }; _denoise; echo "\${COMPREPLY[@]}"`
  );
  const bash = new Deno.Command("bash", { args: ["-c", [...printed, ...calls].join("\n")] });
  const { stdout } = await bash.output();
  const lines = new TextDecoder().decode(stdout).trim().split("\n");
  assert.deepEqual(lines, cases.map(([, wanted]) => wanted!.join(" ")));
}

Deno.test("the script of fish completes what that of bash does", async () => {
  const printed: string[] = [];
  const { log } = console;
  console.log = (line) => printed.push(line);
  try {
    await runCompletion("fish", [["generate", "x"]], TABLES, { models: ["mine"], cached: [] });
  } finally {
    console.log = log;
  }
  const lines = printed.join("\n").split("\n");
  for (
    const [command, flag, word] of [
      ["pull", "", "realesrgan_x4plus"],
      ["run", "", "mine"],
      ["generate", " -l tiny-decoder -r", "taef1"],
      ["generate", " -l lora -r", "outline"],
    ]
  ) {
    const start = `complete -c denoise -n '__fish_seen_subcommand_from ${command}'${flag} -a '`;
    const line = lines.find((line) => line.startsWith(start));
    assert.ok(line && line.slice(start.length).split("'")[0]!.split(" ").includes(word!), word);
  }
});
