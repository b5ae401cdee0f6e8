import { strict as assert } from "node:assert";
import { defaultsOf } from "../generation/flag.ts";
import { Model } from "../mod.ts";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { RUN_FLAGS } from "./flags.ts";
import { runRun } from "./run.ts";

/** Runs lines as a program would give them; gives the requests, the files and what was said. */
async function runLines(lines: readonly string[], words: string[] = [], name = "fake") {
  const folder = await Deno.makeTempDir();
  const engine = new FakeEngine({
    info: { defaultTask: "T2I", supportedTasks: ["T2I", "T2V", "I2I", "I2V"], maxImages: 2 },
  });
  const printed: string[] = [];
  const said: string[] = [];
  const { log, error } = console;
  console.log = (line) => printed.push(line);
  console.error = (line) => said.push(line);
  let loads = 0;
  try {
    const status = await runRun(
      name,
      words,
      { ...defaultsOf(RUN_FLAGS), outputPath: folder, seed: [1] },
      {
        load: () => (loads++, Promise.resolve(new Model(engine))),
        lines: (async function* () {
          yield* lines;
        })(),
        isTerminal: false,
      },
    );
    return { requests: engine.requests, printed, said, status, loads };
  } finally {
    Object.assign(console, { log, error });
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("runRun() draws line by line with what was set, edits the last image and makes videos", async () => {
  const { requests, printed, said, status, loads } = await runLines([
    "a fox",
    "",
    "/set steps 3",
    "/seed 9",
    "/again",
    "/edit make it red",
    "/unset steps",
    "/video it runs",
    "/bye",
    "never",
  ]);
  assert.deepEqual([status, loads, said.length], [0, 1, 4]);
  assert.deepEqual(
    requests.map(({ prompt, taskType, numInferenceSteps, seed, images }) => [
      ...[prompt, taskType, numInferenceSteps, seed, images?.length],
    ]),
    [
      ["a fox", "T2I", requests[0]!.numInferenceSteps, 1, undefined],
      ["a fox", "T2I", 3, 9, undefined],
      ["make it red", "I2I", 3, 9, 1],
      ["it runs", "T2V", requests[0]!.numInferenceSteps, 9, undefined],
    ],
  );
  assert.deepEqual(printed.map((path) => path.slice(-4)), [".png", ".png", ".png", ".mp4"]);
});

Deno.test("runRun() takes all words after /set for a text, and says what the bundled model cannot draw", async () => {
  const { requests, said } = await runLines(["/set negative-prompt a dog, text", "a", "b"], []);
  assert.deepEqual(requests.map(({ negativePrompt }) => negativePrompt), [
    ...["a dog, text", "a dog, text"],
  ]);
  assert.equal(said.length, 2);
  const bundled = await runLines(["a", "b"], [], "bundled");
  const notes = bundled.said.filter((line) =>
    line.includes("The bundled model draws plain shapes")
  );
  assert.equal(notes.length, 1, `${bundled.said}`);
});

Deno.test("runRun() draws the words of the command and ends where nobody types", async () => {
  const { requests, status } = await runLines(["another"], ["a", "fox"]);
  assert.deepEqual([requests.map(({ prompt }) => prompt), status], [["a fox"], 0]);
});

Deno.test("runRun() says what is wrong with a line and goes on", async () => {
  const cases: [line: string, said: RegExp, status: number][] = [
    ["/again", /^Cannot go on from the last prompt: there is none yet/, 2],
    ["/edit", /^Cannot go on from the last prompt/, 2],
    ["/open", /^Cannot go on from the last result/, 2],
    ["/draw", /^Cannot do \/draw: there is no such command/, 2],
    ["/set", /^Cannot set a flag: its name is missing/, 2],
    ["/set -- x", /^Cannot set a flag: its name is missing/, 2],
    ["/set vae x", /^Cannot set --vae: the model is loaded with it/, 2],
    ["/set stepz 4", /unknown option '--stepz'/, 2],
    ["/set steps none", /^Cannot set --num-inference-steps none: .*argument 'none' is invalid/, 2],
    ["/set steps", /^Cannot set --num-inference-steps: .*argument missing/, 2],
    ["/set steps 51", /^Cannot set --num-inference-steps 51: .* at most 50/, 2],
    ["/set size banana", /^Cannot set --size banana: size must be formatted/, 2],
    ["/set size 100x100", /^Cannot generate 100x100: .* the nearest size is 96x96/, 1],
    ["/set output a.gif", /^Cannot write a\.gif: name it with \.png/, 2],
    ["/set image none.png", /^Cannot .*none\.png/, 1],
    ["/set lora none.safetensors", /^Cannot open LoRA .*none\.safetensors: it does not exist/, 1],
    ["/set sampler best", /^Cannot set --sampler best: .*Allowed choices are/, 2],
    ["/set flow-shift 3", /^Cannot set --flow-shift: /, 1],
    ["/unset stepz", /^Cannot unset --stepz: it is not set/, 2],
    ["/seed x", /--seed/, 2],
  ];
  for (const [line, words, wanted] of cases) {
    const { said, status, requests } = await runLines([line]);
    assert.deepEqual([status, said.length, requests.length], [wanted, 1, 0], line);
    assert.match(said[0]!, words);
  }
  const { said, requests } = await runLines(["/video it runs", "/edit x", "a fox"]);
  assert.match(said[1]!, /^Cannot edit .*\.mp4: it is no image; make one first/);
  assert.equal(requests.length, 2);
});
