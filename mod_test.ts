import { strict as assert } from "node:assert";
import { encodeImage } from "./media/encode.ts";
import { findFfmpeg, probeVideo } from "./media/video/mod.ts";
import { recipeIn } from "./tests/support/recipe_in.ts";
import { loadModel, LoraError, type LoraUse, Model } from "./mod.ts";
import { loraFile } from "./tests/fakes/loras.ts";
import { FakeEngine, gradient } from "./tests/fakes/engine.ts";

const engine = () =>
  new FakeEngine({
    info: {
      supportedTasks: ["T2V", "T2I", "I2I", "I2V", "V2V"],
      maxImages: 2,
      taskDefaults: { I2V: { guidanceScale: 5, numFrames: 13 } },
    },
  });

const grey = (width: number, height: number) => ({
  ...{ width, height },
  data: new Uint8Array(width * height * 3).fill(128),
});

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("Model.generate() takes images as path, bytes and pixels, in the first one's shape", () =>
  inFolder(async (folder) => {
    const { bytes } = await encodeImage(grey(120, 40), { format: "png" });
    await Deno.writeFile(`${folder}/a.png`, bytes);
    for (const images of [[`${folder}/a.png`], [bytes], [grey(120, 40), grey(7, 9)]]) {
      const fake = engine();
      const [image] = await new Model(fake).generate({ prompt: "a", images, quality: "high" });
      const [{ taskType, images: given, quality, numFrames }] = fake.requests as [
        typeof fake.requests[0],
      ];
      assert.deepEqual([taskType, quality, numFrames], ["I2I", "high", 1]);
      assert.equal(given!.length, images.length);
      for (const { width, height } of [...given!, image]) {
        assert.deepEqual([width, height], [96, 32]);
      }
    }
  }));

Deno.test("Model.generate() applies LoRAs to this call alone, and the recipe names them", () =>
  inFolder(async (folder) => {
    const path = `${folder}/a.safetensors`;
    await Deno.writeFile(path, loraFile({ mark: 1 }));
    const model = new Model(engine());
    const make = async (loras?: LoraUse[]) =>
      (await model.generate({ prompt: "a", seed: 42, ...(loras ? { loras } : {}) }))[0];
    const [base, styled, weaker, again] = [
      await make(),
      await make([{ path }]),
      await make([{ path, strength: 0.5 }]),
      await make([]),
    ];
    assert.deepEqual(again.data, base.data);
    assert.equal(new Set([base, styled, weaker].map(({ data }) => data.toHex())).size, 3);
    assert.deepEqual(recipeIn(await weaker.toPng()).loras, [{
      path,
      strength: 0.5,
      target: "all",
    }]);
    await assert.rejects(make([{ path, target: "critic" }]), LoraError);
    await assert.rejects(make([{ path: `${folder}/b.safetensors` }]), LoraError);
  }));

Deno.test("Model.generate() names the task, and inputs only where there are some", async () => {
  const fake = engine();
  await new Model(fake).generate({ prompt: "a", seed: 42 });
  assert.deepEqual(fake.requests, [{
    prompt: "a",
    negativePrompt: "",
    width: 64,
    height: 48,
    numFrames: 1,
    seed: 42,
    numInferenceSteps: 4,
    guidanceScale: 3.5,
    taskType: "T2I",
  }]);
});

Deno.test("Model.generateVideo() gives frames, and a file of them", () =>
  inFolder(async (folder) => {
    const fake = engine();
    const shown: number[] = [];
    const video = await new Model(fake, "gradients").generateVideo({
      prompt: "a",
      seconds: 1,
      fps: 12,
      seed: 7,
      onProgress: ({ fraction }) => shown.push(fraction),
    });
    assert.deepEqual([video.width, video.height, video.fps, video.frames.length], [64, 48, 12, 13]);
    assert.deepEqual(video.frame(1).data, gradient(fake.requests[0]!, 1));
    assert.equal(video.recipe.model, "gradients");
    assert.equal(shown.at(-1), 1);
    assert.throws(() => video.frame(13), /Cannot show frame 13: the video has frames 0 to 12/);
    const path = `${folder}/new/video.mp4`;
    await video.save(path, { preset: "ultrafast", quality: 90 });
    const { width, height, frames, fps } = await probeVideo(await findFfmpeg(), path);
    assert.deepEqual([width, height, frames, fps], [64, 48, 13, 12]);
    const blob = await video.toBlob({ preset: "ultrafast", quality: 90 });
    assert.equal(blob.type, "video/mp4");
    assert.deepEqual(await blob.bytes(), await Deno.readFile(path));
    await assert.rejects(video.toBlob({ format: "webm" }), {
      message: "Cannot write the video: only a browser tab writes webm; use mp4",
    });
  }));

Deno.test("Model.generateVideo() gives the model's sound as long as the frames, and its file has it", () =>
  inFolder(async (folder) => {
    const model = new Model(new FakeEngine({ info: { givesAudio: true } }));
    const options = { prompt: "a", numFrames: 9, fps: 8 };
    const video = await model.generateVideo(options);
    const { sampleRate, channels } = video.audio!;
    assert.deepEqual([sampleRate, channels.map(({ length }) => length)], [24_000, [
      27_000,
      27_000,
    ]]);
    const between = new Model(
      new FakeEngine({ info: { givesAudio: true, optionalParts: ["frameInterpolator"] } }),
    );
    const smooth = await between.generateVideo({ ...options, enableFrameInterpolation: true });
    // 17 frames at 16 a second.
    assert.deepEqual([smooth.fps, smooth.audio!.channels[0]!.length], [16, 25_500]);
    await assert.rejects(
      between.generateVideo({
        ...{ ...options, fps: 240 },
        ...{ enableFrameInterpolation: true, frameInterpolationExp: 3 },
      }),
      {
        field: "frameInterpolationExp",
        message:
          /^Cannot make a video of 1920 frames per second: H\.264 has at most 300; ask for a/,
      },
    );
    const codecs = async (path: string) => (await probeVideo(await findFfmpeg(), path)).audioCodec;
    await video.save(`${folder}/a.mp4`);
    await model.saveVideo(`${folder}/b.mp4`, options);
    await model.saveVideo(`${folder}/c.mp4`, { ...options, enableAudio: false });
    await video.save(`${folder}/d.wav`);
    const { frameCount } = await model.saveVideo(`${folder}/e.wav`, options);
    assert.equal(frameCount, 0);
    assert.deepEqual(
      await Deno.readFile(`${folder}/d.wav`),
      await Deno.readFile(`${folder}/e.wav`),
    );
    const silent = new Model(new FakeEngine());
    const refusal = /^Cannot write WAV: this model makes no sound; ask for a video in MP4$/;
    await assert.rejects(silent.saveVideo(`${folder}/f.wav`, options), { message: refusal });
    const mute = await silent.generateVideo(options);
    await assert.rejects(
      mute.save(`${folder}/f.wav`),
      /the model made no sound; name it with .mp4/,
    );
    assert.deepEqual(
      await Promise.all(["a", "b", "c"].map((name) => codecs(`${folder}/${name}.mp4`))),
      ["aac", "aac", undefined],
    );
  }));

Deno.test("Model.saveVideo() writes frames as they come, and leaves no file where it fails", () =>
  inFolder(async (folder) => {
    const fake = engine();
    const path = `${folder}/new/video.mp4`;
    const request = { prompt: "a", seconds: 1, fps: 12, seed: 7 };
    const file = { preset: "ultrafast", isFragmented: true } as const;
    const saved = await new Model(fake, "gradients").saveVideo(path, request, file);
    assert.deepEqual([saved.frameCount, saved.fps, saved.recipe.seed], [13, 12, 7]);
    const { width, height, frames, fps } = await probeVideo(await findFfmpeg(), path);
    assert.deepEqual([width, height, frames, fps], [64, 48, 13, 12]);
    await Deno.remove(path);
    const broken = new Model(new FakeEngine({ failure: new Error("no power") }));
    await assert.rejects(broken.saveVideo(path, request), /^Error: no power$/);
    const signal = AbortSignal.abort();
    await assert.rejects(new Model(fake).saveVideo(path, { ...request, signal }), {
      name: "AbortError",
    });
    assert.deepEqual([...Deno.readDirSync(`${folder}/new`)], []);
    await assert.rejects(new Model(fake).saveVideo("a.gif", request), /name it with \.mp4/);
  }));

Deno.test("Model.generateVideo() starts from images, and from videos as file and as frames", () =>
  inFolder(async (folder) => {
    const fake = engine();
    const model = new Model(fake);
    const animated = await model.generateVideo({ prompt: "a", images: [grey(9, 9)] });
    assert.equal(animated.frames.length, 13);
    const path = `${folder}/a.mp4`;
    await animated.save(path, { preset: "ultrafast" });
    await model.generateVideo({ prompt: "a", video: path, strength: 0.5, width: 32, height: 32 });
    const frames = [grey(8, 8), grey(8, 8)];
    await model.generateVideo({ prompt: "a", video: frames, numFrames: 5 });
    const [first, second, third] = fake.requests;
    assert.deepEqual([first!.taskType, first!.guidanceScale], ["I2V", 5]);
    assert.deepEqual([second!.taskType, second!.strength, second!.numFrames], ["V2V", 0.5, 13]);
    assert.equal(second!.video!.length, 13);
    assert.deepEqual([second!.video![0]!.width, second!.video![0]!.height], [32, 32]);
    assert.equal(third!.video!.length, 5);
  }));

Deno.test("Model.generateVideo() takes masks, references, the end of a clip and ways to fit images", async () => {
  const fake = new FakeEngine({
    info: {
      supportedTasks: ["T2V", "I2V", "V2V", "F2V"],
      ...{ maxImages: 2, maxReferences: 1, takesMasks: true, continuedFrames: 2 },
      optionalSettings: ["guidanceScale2", "controlScale"],
    },
  });
  const model = new Model(fake);
  const video = [10, 20, 30].map((value) => ({
    ...grey(64, 48),
    data: new Uint8Array(64 * 48 * 3).fill(value),
  }));
  await model.generateVideo({
    ...{
      prompt: "a",
      taskType: "V2V",
      video,
      numFrames: 5,
      controlScale: [0.5],
      guidanceScale2: 2,
    },
    ...{ mask: [grey(8, 8)], references: [grey(100, 50)] },
  });
  await model.generateVideo({ prompt: "a", taskType: "F2V", video });
  await model.generateVideo({ prompt: "a", images: [grey(64, 16), grey(64, 16)], fit: "contain" });
  const [steered, continued, both] = fake.requests;
  const { mask, references, controlScale, guidanceScale2 } = steered!;
  assert.deepEqual(mask!.map(({ width, height }) => [width, height]), new Array(5).fill([64, 48]));
  assert.deepEqual(references!.map(({ width, height }) => [width, height]), [[100, 50]]);
  assert.deepEqual([controlScale, guidanceScale2], [[0.5], 2]);
  assert.deepEqual(continued!.video!.map(({ data }) => data[0]), [20, 30]);
  assert.equal(continued!.numFrames, 9);
  assert.deepEqual(both!.images!.map(({ data }) => [data[0], data[24 * 64 * 3]]), [
    ...[[0, 128], [0, 128]],
  ]);
  await assert.rejects(
    model.generateVideo({ prompt: "a", references: [grey(8, 8), grey(8, 8)] }),
    /^FieldError: Cannot use 2 reference images: this model takes 1$/,
  );
  await assert.rejects(
    model.generateVideo({ prompt: "a", mask: [grey(8, 8)] }),
    /^FieldError: Cannot use mask: this model redraws videos as a whole; omit it$/,
  );
});

Deno.test("Model.generate() edits by masks, and takes an image with holes for its own", async () => {
  const inpainting = { strength: 0.9 };
  const info = { defaultTask: "T2I", supportedTasks: ["T2I", "TI2I"], maxImages: 2 } as const;
  const fake = new FakeEngine({ info: { ...info, inpainting } });
  const model = new Model(fake);
  const half = grey(64, 48);
  half.data.fill(0).fill(255, half.data.length / 2);
  const images = [grey(64, 48)];
  const [made] = await model.generate({ prompt: "a", images, mask: half, strength: 0.5 });
  const holed = { width: 64, height: 48, channels: 4 as const, data: new Uint8Array(64 * 48 * 4) };
  holed.data.fill(255, 0, holed.data.length / 2);
  await model.generate({ prompt: "a", images: [holed] });
  await model.generate({ prompt: "a", images: [holed, holed] });
  const [masked, own, several] = fake.requests;
  const painted = ({ mask }: typeof masked & object) =>
    [0, 1].map((end) => mask![0]!.data.at(-end));
  assert.deepEqual([painted(masked!), painted(own!)], [[0, 255], [0, 255]]);
  assert.deepEqual([masked!.strength, own!.strength, several!.mask], [0.5, undefined, undefined]);
  assert.equal(made.recipe.isMasked, true);
  assert.deepEqual([masked!, own!].map(({ width, height }) => [width, height]), [[64, 48], [
    64,
    48,
  ]]);
  const refused: [Parameters<typeof model.generate>[0], RegExp][] = [
    [
      { prompt: "a", images, mask: grey(48, 48) },
      /mask of 48x48: the image has 64x48; send a mask/,
    ],
    [
      { prompt: "a", images, mask: { ...half, data: half.data.fill(0) } },
      /it keeps all of the image/,
    ],
    [{ prompt: "a", mask: half }, /Cannot use mask: there is no image that it is for; omit it/],
  ];
  for (const [options, message] of refused) {
    await assert.rejects(model.generate(options), { name: "FieldError", message });
  }
});

Deno.test("Model.generate() and generateVideo() refuse inputs in a sentence, before any work", () =>
  inFolder(async (folder) => {
    const fake = engine();
    const model = new Model(fake);
    const text = `${folder}/a.txt`;
    await Deno.writeTextFile(text, "nonsense");
    const cut = `${folder}/cut.png`;
    const { bytes } = await encodeImage(grey(8, 8), { format: "png" });
    await Deno.writeFile(cut, bytes.subarray(0, 60));
    const small = grey(4, 4);
    const refused: [() => Promise<unknown>, RegExp][] = [
      [
        () => model.generate({ prompt: "a", images: [`${folder}/gone.png`] }),
        /^Cannot read .*gone\.png: there is no such file; check its path$/,
      ],
      [() => model.generate({ prompt: "a", images: [folder] }), /^Cannot read .*: it is a folder/],
      [() => model.generate({ prompt: "a", images: [text] }), /^Cannot read .*a\.txt: .* send PNG/],
      [
        () => model.generate({ prompt: "a", images: [cut] }),
        /^Cannot read .*cut\.png: .* truncated/,
      ],
      [
        () => model.generate({ prompt: "a", images: [small, small, small] }),
        /^Cannot use 3 images: this model takes 2$/,
      ],
      [
        () => model.generate({ prompt: "a", images: [{ ...small, width: 5 }] }),
        /5x4/,
      ],
      [
        () =>
          new Model(new FakeEngine({ info: { maxImages: 0 } }))
            .generate({ prompt: "a", images: [small] }),
        /^Cannot do T2I: it takes no input image; this model does T2V, T2I$/,
      ],
      [
        () => model.generate({ prompt: "a", taskType: "T2V" }),
        /^Cannot do T2V for images: it makes videos$/,
      ],
      [
        () => model.generate({ prompt: "a", taskType: "TI2I" }),
        /^Cannot do TI2I: this model does T2V, T2I, /,
      ],
      [
        () => model.generateVideo({ prompt: "a", video: text }),
        /^Cannot read .*a\.txt: .*send MP4/,
      ],
      [
        () => model.generateVideo({ prompt: "a", video: [] }),
        /^Cannot read video: it has no frames$/,
      ],
      [
        () => model.generateVideo({ prompt: "a", video: [small], strength: 0 }),
        /^strength must be/,
      ],
      [() => model.generateVideo({ prompt: "a", fps: 0 }), /^fps must be a positive/],
      [
        () => model.generateVideo({ prompt: "a", seconds: 100 }),
        /at most 81, which is 10\.1 s at 8/,
      ],
      [() => model.generateVideo({ prompt: "a", width: 65 }), /nearest size is 64x48/],
      [() => model.generateVideo({ prompt: "" }), /prompt is empty/],
    ];
    for (const [start, message] of refused) {
      await assert.rejects(start, (error) => {
        assert.match((error as Error).message, message);
        return true;
      });
    }
    assert.equal(fake.requests.length, 0);
  }));

Deno.test("Model.generate() and generateVideo() refuse options of other types, as HTTP does", async () => {
  const fake = engine();
  const model = new Model(fake);
  const image: [Record<string, unknown>, RegExp][] = [
    [{ wildcards: "no" }, /^wildcards must be true or false, got the text "no"$/],
    [{ wildcards: 1 }, /^wildcards must be true or false, got 1$/],
    [{ enableUpscaling: "false" }, /^enableUpscaling must be true or false, got the text "false"$/],
    [{ enableUpscaling: 0 }, /^enableUpscaling must be true or false, got 0$/],
    [{ guidanceScale: "3" }, /^guidanceScale must be a number, got the text "3"$/],
    [{ guidanceScale: false }, /^guidanceScale must be a number, got false$/],
    [{ sigmas: ["1"] }, /^sigmas must be a list of numbers, got 1$/],
    [{ negativePrompt: 7 }, /^negativePrompt must be a text, got 7$/],
    [{ width: "64" }, /^width must be an integer, got the text "64"$/],
    [{ width: 64.5 }, /^width must be an integer, got 64.5$/],
    [{ taskType: 7 }, /^taskType must be a text, got 7$/],
    [{ fit: "crop" }, /^fit must be one of cover, contain, stretch, got crop$/],
    [{ images: "a.png" }, /^images must be a list, got string$/],
    [{ previews: "3" }, /^previews must be an integer, got the text "3"$/],
  ];
  const video: [Record<string, unknown>, RegExp][] = [
    [{ enableAudio: "false" }, /^enableAudio must be true or false, got the text "false"$/],
    [{ enableAudio: 0 }, /^enableAudio must be true or false, got 0$/],
    [{ fps: "8" }, /^fps must be a number, got the text "8"$/],
    [{ numFrames: "9" }, /^numFrames must be an integer, got the text "9"$/],
    [{ seconds: "2" }, /^seconds must be a number, got the text "2"$/],
  ];
  const refused = (made: Promise<unknown>, message: RegExp) =>
    assert.rejects(made, { name: "FieldError", message });
  for (const [options, message] of image) {
    await refused(model.generate({ prompt: "a", ...options }), message);
  }
  for (const [options, message] of video) {
    await refused(model.generateVideo({ prompt: "a", ...options }), message);
  }
  assert.equal(fake.requests.length, 0);
  const loading = loadModel("bundled", { forceSoftware: "no" as unknown as boolean });
  await assert.rejects(loading, /^RangeError: forceSoftware must be true or false$/);
});

Deno.test("GeneratedVideo.save() refuses what it cannot write, and leaves nothing behind", () =>
  inFolder(async (folder) => {
    const video = await new Model(engine()).generateVideo({ prompt: "a", numFrames: 1 });
    await Deno.writeTextFile(`${folder}/file`, "");
    const refused: [() => Promise<void>, RegExp][] = [
      [
        () => video.save(`${folder}/a.webm`),
        /Cannot write .*a\.webm: name it with \.mp4 at the end, or with \.wav for sound alone$/,
      ],
      [() => video.save(`${folder}/file/a.mp4`), /Cannot write .*: a part of its path is a file/],
      [() => video.save(`${folder}/a.mp4`, { quality: 101 }), /between 0 and 100/],
      [
        () => video.save(`${folder}/a.mp4`, { preset: "best" as "fast" }),
        /preset best: use ultrafast,/,
      ],
      [() => video.save(`${folder}/a.mp4`, { signal: AbortSignal.abort() }), /abort/],
    ];
    const names = ["file"];
    if (Deno.build.os === "linux") {
      await Deno.symlink("/dev/full", `${folder}/full.mp4`);
      refused.push([
        () => video.save(`${folder}/full.mp4`),
        /full\.mp4: no space is left on the disk; free some$/,
      ]);
      names.push("full.mp4");
    }
    for (const [start, message] of refused) await assert.rejects(start, message);
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name).sort(), names);
  }));
