import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import manifest from "../deno.json" with { type: "json" };
import { DENO_RUN } from "./e2e/server_process.ts";

const CLI = new URL("../cli.ts", import.meta.url).href;

/** Runs the program in a folder of its own. */
async function run(args: string[], env: Record<string, string> = {}) {
  const cwd = await Deno.makeTempDir();
  try {
    const config = fileURLToPath(new URL("../deno.json", import.meta.url));
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [...DENO_RUN, "--config", config, CLI, ...args],
      cwd,
      env: { NO_COLOR: "1", ...env },
    }).output();
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  } finally {
    await Deno.remove(cwd, { recursive: true });
  }
}

Deno.test("denoise --version prints the version", async () => {
  const { code, stdout, stderr } = await run(["--version"]);
  assert.deepEqual([code, stdout, stderr], [0, `${manifest.version}\n`, ""]);
});

Deno.test("denoise generate needs no home folder for the bundled model", async () => {
  const info = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  const { denoDir } = JSON.parse(new TextDecoder().decode(info.stdout));
  const unset = [
    "HOME",
    "USERPROFILE",
    "XDG_CACHE_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
  ];
  const { code, stdout, stderr } = await run(
    ["generate", "a red star", "--steps", "1", "--size", "64x64", "-o", "star.png"],
    { DENO_DIR: denoDir, ...Object.fromEntries(unset.map((name) => [name, ""])) },
  );
  assert.deepEqual([code, stdout], [0, "star.png\n"], stderr);
});

Deno.test("denoise without arguments and with --help lists the commands", async () => {
  for (const args of [[], ["--help"]]) {
    const { code, stdout, stderr } = await run(args);
    assert.equal(code, 0);
    assert.equal(stderr, "");
    for (
      const command of [
        ...["serve", "generate", "plan", "pull", "list", "rm"],
        ...["inspect", "quantize", "doctor", "tune", "report", "test", "bench"],
      ]
    ) {
      assert.match(stdout, new RegExp(`^  ${command}\\b`, "m"));
    }
  }
});

Deno.test("denoise serve --help lists every flag of the service", async () => {
  const { code, stdout } = await run(["serve", "--help"]);
  assert.equal(code, 0);
  const flags =
    "model-path served-model-name model-id public-url default-seed host port strict-ports output-path input-save-path " +
    "retain resume-jobs s3-bucket s3-endpoint s3-region allow-private-urls enable-metrics log-format " +
    "max-vram api-key max-queue cors-origin strict-fields prompt-enhancer-config " +
    "text-encoder-cpu-offload pin-cpu-memory num-gpus ulysses-degree ring-degree";
  for (const flag of flags.split(" ")) assert.ok(stdout.includes(`--${flag}`), flag);
});

Deno.test("denoise help lists the commands, and the flags of the one that is named", async () => {
  for (const [args, line] of [[[], /^ {2}serve\b/m], [["ps"], /^ {2}--json\b/m]] as const) {
    const { code, stdout, stderr } = await run(["help", ...args]);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, line);
  }
});

Deno.test("denoise bench --help lists every flag of the benches", async () => {
  const { code, stdout } = await run(["bench", "--help"]);
  assert.equal(code, 0);
  const source = await Deno.readTextFile(new URL("../tools/bench/main.ts", import.meta.url));
  const [, options] = /^const OPTIONS = \{\n(.*?)^\}/ms.exec(source)!;
  const flags = [...options!.matchAll(/^ {2}"?([\w-]+)"?: \{/gm)].map(([, name]) => name);
  assert.ok(flags.length > 5);
  for (const flag of flags) assert.match(stdout, new RegExp(`^  --${flag}\\b`, "m"));
});

/** Command lines that end at once: arguments, status, what the one sentence says. */
const FAILURES: [args: string[], code: number, sentence: RegExp][] = [
  [["paint"], 2, /unknown command 'paint'/],
  [["report", "--sections", "probes,speed"], 2, /section "speed": there are environment, /],
  [["serve", "--prot", "1"], 2, /unknown option '--prot'.*--port/],
  [["serve", "--port", "x"], 2, /--port <port>.*integer from 0 to 65535/],
  [["serve", "--num_gpus", "0"], 2, /--num-gpus <count>.*at least 1/],
  [["serve", "--max-vram", "much"], 2, /amount of memory/],
  [["serve", "--retain", "7"], 2, /length of time such as 30m, 12h or 7d/],
  [["serve", "--log-format", "xml"], 2, /Allowed choices are text, json/],
  [["serve", "--s3-bucket", "No/Name"], 2, /"No\/Name" is no name of a bucket/],
  [["serve", "--s3-region", "here"], 2, /no bucket is named; set --s3-bucket/],
  [["serve", "--strict-ports", "maybe"], 2, /true or false/],
  [["serve", "--prompt-enhancer-config", "gone.json"], 1, /Cannot read the prompt enhancer's/],
  [
    ["generate"],
    2,
    /^denoise: Cannot generate: the prompt is missing; say what to make, before flags that take several files, or name an image that says it with --from$/,
  ],
  [
    ["generate", "a", "--prompt", "b"],
    2,
    /Cannot use --prompt with a prompt without flag: give one/,
  ],
  [["generate", "--prompt-file", "gone.txt"], 2, /Cannot read the prompt in gone.txt: it does not/],
  [["generate", "--promt", "a"], 2, /unknown option '--promt' \(Did you mean --prompt\?\)/],
  [["genrate", "--prompt", "a"], 2, /unknown command 'genrate' \(Did you mean generate\?\)/],
  [["serve", "--public-url", "here"], 2, /an address such as https:/],
  [["serve", "--default-seed=-1"], 2, /integer of at least 0/],
  [["help", "paint"], 2, /Cannot show the flags of paint: there is no such command/],
  [["rm", "paint"], 2, /Cannot remove paint: it is neither a name .* nor a hub id/],
  [["serve", "--api-key", ""], 2, /Cannot use an API key that is empty: give one such as/],
  [["serve", "--api-key", "a b"], 2, /Cannot use an API key that has spaces/],
  [["generate", "--prompt", "a", "--guidance-scale-2", "x"], 2, /number of at least 0/],
  [["bench", "--models"], 2, /start \.\/denoise bench in the source/],
  [["generate", "--prompt", "a", "--output", "a.gif"], 2, /Cannot write a\.gif: name it with/],
  [["generate", "--prompt", "a", "--seed=-2"], 2, /integer of at least -1/],
  [["plan", "bundled", "--size", "big"], 2, /positive WIDTHxHEIGHT/],
  [["quantize", "bundled", "a.bin", "--type", "q8_0"], 2, /give a name that ends with \.gguf/],
  [["quantize", "bundled", "a.gguf", "--type", "fp8"], 2, /a name that ends with \.safetensors/],
  [["pull", "org/name", "--revision", ""], 2, /"" is not a branch, tag or commit/],
  [["generate", "--prompt", "a", "--image", "gone.png"], 1, /gone\.png: there is no such file/],
  [["inspect", "gone"], 1, /gone: it does not exist/],
  [["generate", "--prompt", "a", "--size", "big"], 2, /positive WIDTHxHEIGHT/],
  [["generate", "--prompt", "a", "--output-quality", "best"], 2, /Allowed choices are default/],
  [["generate", "--prompt", "a", "--model-path", "./gone", "--output", "a.png"], 1, /gone/],
  [["serve", "--model-path", "./gone", "--port", "0"], 1, /gone/],
];

for (const [args, expected, sentence] of FAILURES) {
  Deno.test(`denoise ${args.join(" ")} ends with ${expected} and one sentence`, async () => {
    const { code, stdout, stderr } = await run(args);
    assert.equal(code, expected, stderr);
    assert.equal(stdout, "");
    const last = stderr.trimEnd().split("\n").at(-1)!;
    assert.match(last, /^denoise: /);
    assert.match(last, sentence);
    assert.doesNotMatch(stderr, /\n\s+at .*:\d+/, "no stack");
  });
}
