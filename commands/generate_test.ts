import { strict as assert } from "node:assert";
import { defaultsOf } from "../generation/flag.ts";
import { decodeImage } from "../media/decode.ts";
import { encodeImage } from "../media/encode.ts";
import { findFfmpeg, probeVideo } from "../media/video/mod.ts";
import { type Image, Model, type ModelInfo, type TaskType } from "../mod.ts";
import { loraFile } from "../tests/fakes/loras.ts";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { chooseWords } from "../generation/wildcards.ts";
import { recipeIn } from "../tests/support/recipe_in.ts";
import { UsageError } from "./failure.ts";
import { lora } from "./flag_readers.ts";
import { FlagCommand, normalizeArgs, valuesOf } from "./flag_command.ts";
import { promptOf, runGenerate } from "./generate.ts";
import { GENERATE_FLAGS, GENERATE_GROUPS, type GenerateFlags } from "./flags.ts";

/** Runs the command with a model that can do everything; gives what it was asked and the paths it printed. */
async function run(
  folder: string,
  flags: Partial<GenerateFlags>,
  info: Partial<ModelInfo> = {},
) {
  const engine = new FakeEngine({
    info: { supportedTasks: ["T2V", "T2I", "I2I", "I2V", "V2V"], maxImages: 2, ...info },
  });
  const printed: string[] = [];
  const said: string[] = [];
  const { log, error } = console;
  console.log = (line) => printed.push(line);
  console.error = (line) => said.push(line);
  const all = { ...defaultsOf(GENERATE_FLAGS), prompt: "a", modelPath: "fake", outputPath: folder };
  try {
    const status = await runGenerate(
      { ...all, ...flags },
      () => Promise.resolve(new Model(engine)),
    );
    return { engine, printed, said, status };
  } finally {
    Object.assign(console, { log, error });
  }
}

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function writeImage(folder: string): Promise<string> {
  const data = new Uint8Array(64 * 64 * 3).fill(200);
  const path = `${folder}/in.png`;
  const { bytes } = await encodeImage({ width: 64, height: 64, data }, { format: "png" });
  await Deno.writeFile(path, bytes);
  return path;
}

Deno.test("runGenerate() edits images", () =>
  inFolder(async (folder) => {
    const image = await writeImage(folder);
    const output = `${folder}/out.webp`;
    const { engine, printed } = await run(folder, { image: [image, image], output, size: "32x48" });
    assert.deepEqual(printed, [output]);
    const { taskType, images } = engine.requests[0]!;
    assert.deepEqual([taskType, images!.length, images![1]!.height], ["I2I", 2, 48]);
    const { width, height } = await decodeImage(await Deno.readFile(output));
    assert.deepEqual([width, height], [32, 48]);
  }));

Deno.test("runGenerate() lets each seed choose words with --wildcards, which the file names", () =>
  inFolder(async (folder) => {
    const flags = { prompt: "a {red|green|blue} fox", numOutputs: 2, seed: [5] };
    const { engine, printed, said } = await run(folder, {
      ...flags,
      output: `${folder}/a.png`,
      wildcards: true,
    });
    const wanted = [5, 6].map((seed) => chooseWords(flags.prompt, seed));
    assert.deepEqual(engine.requests.map(({ prompt }) => prompt), wanted);
    const named = await Promise.all(
      printed.map(async (path) => recipeIn(await Deno.readFile(path)).prompt),
    );
    assert.deepEqual(named, wanted);
    assert.ok(said.includes(`${printed[1]}: ${wanted[1]}`), `${said}`);
    const plain = await run(folder, { ...flags, output: `${folder}/b.png` });
    assert.equal(plain.engine.requests[0]!.prompt, flags.prompt);
  }));

Deno.test("runGenerate() draws seeds, and says which", () =>
  inFolder(async (folder) => {
    const output = `${folder}/a.png`;
    const cases: [Partial<GenerateFlags>, RegExp][] = [
      [{}, /, seed \d+$/],
      [{ seed: [-1], numOutputs: 2 }, /, seeds \d+ to \d+$/],
      [{ seed: [3, 1], numOutputs: 2 }, /, seeds 3, 1$/],
      [{ defaultSeed: 5 }, /, seed 5$/],
      [{ defaultSeed: 5, seed: [7] }, /, seed 7$/],
    ];
    const drawn: number[] = [];
    for (const [flags, ending] of cases) {
      const { engine, said } = await run(folder, { output, ...flags });
      assert.match(said.at(-1)!, ending);
      const seeds = engine.requests.map(({ seed }) => seed);
      drawn.push(seeds[0]!);
      assert.match(
        said.at(-1)!,
        new RegExp(`seeds? ${seeds[0]}\\b.*\\b${seeds.at(-1)}$|${seeds[0]}$`),
      );
    }
    assert.notEqual(drawn[0], drawn[1]);
  }));

Deno.test("runGenerate() makes videos from texts, images and videos", () =>
  inFolder(async (folder) => {
    const ffmpeg = await findFfmpeg();
    const output = `${folder}/a.mp4`;
    const { said } = await run(folder, { output, numFrames: 5, fps: 10, x264Preset: "ultrafast" });
    assert.match(said.at(-1)!, /^Generated 1 video of 5 frames of 64x48 in /);
    assert.equal((await probeVideo(ffmpeg, output)).fps, 10);
    const animated = await run(folder, { image: [await writeImage(folder)], taskType: "i2v" });
    assert.match(animated.printed[0]!, /a_\d{8}-\d{6}_[0-9a-f]{8}\.mp4$/);
    assert.equal(animated.engine.requests[0]!.taskType, "I2V");
    const changed = await run(folder, { video: output, strength: 0.4, numOutputs: 2, seed: [3] });
    assert.equal(changed.printed.length, 2);
    assert.match(changed.printed[1]!, /-1\.mp4$/);
    assert.deepEqual(
      changed.engine.requests.map(({ taskType, seed, strength, video }) => [
        ...[taskType, seed, strength],
        video!.length,
      ]),
      [["V2V", 3, 0.4, 5], ["V2V", 4, 0.4, 5]],
    );
  }));

Deno.test("runGenerate() writes the sound of a video alone, and videos without sound", () =>
  inFolder(async (folder) => {
    const [wav, mp4] = [`${folder}/a.wav`, `${folder}/a.mp4`];
    const info = { givesAudio: true } as const;
    const alone = await run(folder, { output: wav, numFrames: 5 }, info);
    assert.match(alone.said.at(-1)!, /^Generated 1 sound in /);
    assert.equal(alone.engine.requests[0]!.audioAlone, true);
    const idle = { outputQuality: "high", x264Preset: "slow", fragmented: true } as const;
    const told = await run(folder, { output: wav, numFrames: 5, ...idle }, info);
    assert.equal(
      told.said[0],
      `Note: not used for ${wav}: --output-quality, --x264-preset, --fragmented; WAV is written without loss`,
    );
    const mute = await run(folder, { output: mp4, numFrames: 5, enableAudio: false });
    assert.equal(mute.said[0], "Note: --no-audio changes nothing: this model makes no sound");
    assert.equal(new TextDecoder().decode((await Deno.readFile(wav)).slice(8, 12)), "WAVE");
    for (const [enableAudio, codec] of [[true, "aac"], [false, undefined]] as const) {
      await run(folder, { output: mp4, numFrames: 5, enableAudio }, info);
      assert.equal((await probeVideo(await findFfmpeg(), mp4)).audioCodec, codec);
    }
    const takesAudio = { sampleRate: 8000, channels: 2 };
    const heard = await run(folder, { output: mp4, numFrames: 9, audio: wav }, {
      ...info,
      takesAudio,
    });
    const { audio } = heard.engine.requests[0]!;
    assert.deepEqual([audio!.sampleRate, audio!.channels.length], [8000, 2]);
    assert.ok(heard.said.some((line) => /^Note: the sound lasts .*: silence follows/.test(line)));
    assert.equal((await probeVideo(await findFfmpeg(), mp4)).audioCodec, "aac");
    await assert.rejects(run(folder, { output: mp4, numFrames: 5, audio: wav }, info), {
      message: "Cannot follow a sound: this model takes none; omit it",
    });
    await assert.rejects(
      run(folder, { output: wav, numFrames: 5 }),
      { message: "Cannot write WAV: this model makes no sound; ask for a video in MP4" },
    );
  }));

Deno.test("runGenerate() steers videos by masks, references and weights, and fits images", () =>
  inFolder(async (folder) => {
    const image = await writeImage(folder);
    const output = `${folder}/a.mp4`;
    const info = {
      ...{ takesMasks: true, maxReferences: 2 },
      optionalSettings: ["controlScale"] as const,
    };
    await run(folder, { output, numFrames: 5 });
    for (const mask of [image, output]) {
      const { engine } = await run(folder, {
        ...{ video: output, mask, reference: [image, image], controlScale: [1, 0.5] },
      }, info);
      const [request] = engine.requests;
      assert.equal(request!.mask!.length, 5);
      assert.equal(request!.references!.length, 2);
      assert.deepEqual(request!.controlScale, [1, 0.5]);
    }
    const { engine } = await run(folder, { image: [image], fit: "stretch", taskType: "I2V" });
    const [{ width, height }] = engine.requests[0]!.images as [Image];
    assert.deepEqual([width, height], [64, 48]);
  }));

Deno.test("runGenerate() edits an image by a mask, and refuses a video for that", () =>
  inFolder(async (folder) => {
    const image = await writeImage(folder);
    const info = {
      supportedTasks: ["T2V", "T2I", "TI2I"],
      inpainting: { strength: 1 },
    } as const;
    const flags = { image: [image], taskType: "TI2I" };
    const { engine } = await run(folder, { ...flags, mask: image }, info);
    assert.equal(engine.requests[0]!.mask!.length, 1);
    const video = `${folder}/a.mp4`;
    await run(folder, { output: video, numFrames: 5 });
    await assert.rejects(run(folder, { ...flags, mask: video }, info), {
      name: "Error",
      message: /^Cannot use the mask .*a\.mp4: it is a video; name an image$/,
    });
  }));

Deno.test("runGenerate() applies LoRAs in their order, to images and videos", () =>
  inFolder(async (folder) => {
    const [first, second] = ["a", "b"].map((name) => `${folder}/${name}.safetensors`);
    await Deno.writeFile(first!, loraFile({ mark: 1 }));
    await Deno.writeFile(second!, loraFile({ mark: 2 }));
    const flags = { lora: lora(`${second}:0.5:transformer`, lora(first!)) };
    const loras = [{ path: first }, { path: second, strength: 0.5, target: "transformer" }];
    for (const output of [`${folder}/out.png`, `${folder}/out.mp4`]) {
      const { engine } = await run(folder, { ...flags, output });
      assert.deepEqual(engine.requests[0]!.loras, loras);
    }
    await assert.rejects(run(folder, { lora: lora(`${folder}/c.safetensors`) }), {
      name: "LoraError",
      message:
        /c\.safetensors: it does not exist; give a \.safetensors, \.pt, \.ckpt or \.bin file/,
    });
  }));

Deno.test("runGenerate() refuses a file of what the model does not make in plain words", () =>
  inFolder(async (folder) => {
    const cases: [Partial<GenerateFlags>, TaskType, string][] = [
      [
        { output: `${folder}/a.png` },
        "T2V",
        "Cannot make an image: fake makes videos; name the output with .mp4 at the end",
      ],
      [
        { output: `${folder}/a.mp4`, taskType: "T2V" },
        "T2I",
        "Cannot make a video: fake makes images; name the output with .png at the end, and omit --task-type",
      ],
      [{ fps: 8 }, "T2I", "Cannot make a video: fake makes images; omit --fps"],
      [{ enableAudio: false }, "T2I", "Cannot make a video: fake makes images; omit --no-audio"],
    ];
    for (const [flags, task, message] of cases) {
      const refused = run(folder, flags, { defaultTask: task, supportedTasks: [task] });
      await assert.rejects(refused, (error) => {
        assert.ok(error instanceof UsageError);
        assert.equal(error.message, message);
        return true;
      });
    }
  }));

Deno.test("runGenerate() says which braces of the prompt are text, and which flags PNG makes no use of", () =>
  inFolder(async (folder) => {
    const output = `${folder}/a.png`;
    const { said } = await run(folder, { output, prompt: "a {red|blue fox", wildcards: true });
    assert.match(said[0]!, /^Note: nothing closes a \{ of the prompt, and it is read as text/);
    const plain = await run(folder, { output, prompt: "a {red|blue} fox", outputCompression: 9 });
    assert.deepEqual(plain.said.slice(0, 2), [
      "Note: {red|blue} is read as text; --wildcards chooses one of its words",
      `Note: not used for ${output}: --output-compression; PNG is written without loss`,
    ]);
    const none = await run(folder, { output, prompt: "a {fox}" });
    assert.equal(none.said.length, 1);
  }));

Deno.test("runGenerate() makes what the model makes, where nothing else is said", () =>
  inFolder(async (folder) => {
    assert.match((await run(folder, {})).printed[0]!, /\.mp4$/);
    assert.match((await run(folder, { taskType: "T2I" })).printed[0]!, /\.png$/);
  }));

Deno.test("runGenerate() refuses bad inputs in a sentence, before the model is loaded", () =>
  inFolder(async (folder) => {
    const text = `${folder}/a.txt`;
    await Deno.writeTextFile(text, "nonsense");
    const files: [Partial<GenerateFlags>, RegExp][] = [
      [{ image: [`${folder}/gone.png`] }, /gone\.png: there is no such file; check its path$/],
      [{ image: [text] }, /a\.txt: the file is of no known format; send PNG/],
      [{ video: text }, /a\.txt: it is damaged or of no known format; send MP4/],
      [{ video: folder }, /: it is a folder; name a file in it$/],
    ];
    const usage: [Partial<GenerateFlags>, RegExp][] = [
      [{ strength: 2 }, /^strength must be above 0 and at most 1, got 2$/],
      [{ taskType: "T2X" }, /^Unknown task_type 'T2X'; choose from/],
      [{ output: `${folder}/a.png`, fps: 3 }, /^Cannot use --fps for an image: name the output/],
      [
        { output: `${folder}/a.png`, taskType: "t2v" },
        /^Cannot do T2V for .*a\.png: it makes a video; name the output with \.mp4 at the end$/,
      ],
      [{ taskType: "T2I", numFrames: 3 }, /^Cannot use --num-frames for an image/],
      [
        { output: `${folder}/a.png`, enableAudio: false },
        /^Cannot use --no-audio for an image: name the/,
      ],
      [{ output: `${folder}/a.avi` }, /a\.avi: name it with .*\.mp4, .* \.wav at the end$/],
    ];
    for (const [flags, message] of [...files, ...usage]) {
      const isUsage = usage.some(([own]) => own === flags);
      const load = () => Promise.reject(new Error("the model was loaded"));
      const all = {
        ...defaultsOf(GENERATE_FLAGS),
        prompt: "a",
        modelPath: "fake",
        outputPath: folder,
      };
      await assert.rejects(
        runGenerate({ ...all, outputQuality: "default", ...flags }, load),
        (error) => {
          assert.equal(error instanceof UsageError, isUsage, String(error));
          assert.match((error as Error).message, message);
          return true;
        },
      );
    }
  }));

Deno.test("the prompt of generate stands in words, in a file, or after its flag, and letters stand for flags", async () => {
  await inFolder(async (folder) => {
    const file = `${folder}/prompt.txt`;
    await Deno.writeTextFile(file, "a red fox\n");
    const cases: readonly (readonly [string[], Partial<GenerateFlags>])[] = [
      [["a", "red", "fox", "--steps", "3"], { numInferenceSteps: 3 }],
      [["-p", "a red fox", "-n", "blue", "-s", "7"], { negativePrompt: "blue", seed: [7] }],
      [["--prompt-file", file, "-m", "fake", "-o", "x.png"], { output: "x.png" }],
    ];
    for (const [args, expected] of cases) {
      const command = new FlagCommand("generate").addFlags(GENERATE_FLAGS, GENERATE_GROUPS)
        .argument("[prompt...]");
      command.parse(normalizeArgs(args), { from: "user" });
      const flags = valuesOf(command, GENERATE_FLAGS);
      const { prompt } = await promptOf(command.args, flags);
      assert.equal(prompt, "a red fox");
      assert.deepEqual({ ...flags, ...expected }, flags);
    }
  });
});
