import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Inspection } from "../models/file_tools.ts";
import { encodePng } from "../media/png.ts";
import { describe, runInspect } from "./inspect.ts";

const FILE: Inspection = {
  path: "/m/z.gguf",
  kind: "weights",
  isUsable: true,
  family: "Z-Image",
  bytes: 3.5e9,
  components: [{
    component: "transformer",
    holds: "a Z-Image transformer",
    formats: [{ format: "Q4_K", tensors: 200, bytes: 3.4e9 }, {
      format: "F32",
      tensors: 9,
      bytes: 1e8,
    }],
    parameters: 6.15e9,
    bytes: 3.5e9,
    deviceBytes: 3.5e9,
    hasUnreadFormats: false,
  }],
  problem:
    'Cannot open "/m/z.gguf": it holds a Z-Image transformer, and the tokenizer is missing; name it',
};

Deno.test("describe() of a file has its parts in a table, and what is missing", () => {
  assert.equal(
    describe("z.gguf", FILE),
    [
      "z.gguf: a Z-Image transformer, 3.5 GB",
      "",
      "part         stored as                  numbers      on disk  on the GPU",
      "transformer  Q4_K 3.4 GB, F32 100.0 MB  6.2 billion  3.5 GB   3.5 GB",
      "",
      "The tokenizer is missing; name it",
    ].join("\n"),
  );
});

Deno.test("describe() of an embedding tells its vectors and its models", () => {
  const embedding = [{ width: 768, count: 2 }, { width: 1280, count: 1 }];
  const found = { path: "a.pt", kind: "embedding", isUsable: true, bytes: 4096 } as const;
  assert.equal(
    describe("a.pt", { ...found, components: [], embedding }),
    "a.pt: an embedding: 2 vectors for CLIP-L (Stable Diffusion 1 and XL), 1 vector for OpenCLIP bigG (Stable Diffusion XL), 0.0 MB",
  );
});

Deno.test("describe() of a LoRA tells how it was made, and whether it fits", () => {
  const lora = {
    ...{ dialect: "kohya (LoHa)", family: "Wan 14B", modules: { transformer: 400 }, ranks: [16] },
    ...{
      formats: ["BF16"],
      hasUnreadFormats: false,
      refused: [],
      unknownKeys: [],
      words: ["fox-style"],
      notes: { "modelspec.title": "fox" },
    },
  };
  const found: Inspection = {
    path: "a",
    kind: "lora",
    isUsable: true,
    bytes: 3e8,
    components: [],
    lora,
  };
  const text = describe("fox.safetensors", found, {
    ...{ model: "wan", fits: true, modules: 400, unmatchedKeys: ["x"] },
  });
  assert.match(text, /^fox\.safetensors: a LoRA for Wan 14B, 300\.0 MB\n/);
  assert.match(text, /naming {5}kohya \(LoHa\)\nmodules {4}400 of the transformer\nrank {7}16/);
  assert.match(text, /\nembeddings fox-style\n/);
  assert.match(text, /It fits wan: 400 modules are changed; 1 of its keys lead to nothing$/);
});

/** What a command prints. */
async function printed(run: () => Promise<number>): Promise<{ status: number; text: string }> {
  const { log } = console;
  const lines: string[] = [];
  console.log = (line: string) => void lines.push(line);
  try {
    return { status: await run(), text: lines.join("\n") };
  } finally {
    console.log = log;
  }
}

Deno.test("runInspect() tells of several files, whichever of them cannot be read", async () => {
  const folder = fileURLToPath(new URL("../models/bundled/", import.meta.url));
  const lora = `${folder}adapters/outline.safetensors`;
  const paths = ["bundled", `${folder}README.md`, lora] as const;
  const { status, text } = await printed(() => runInspect(paths, { against: "bundled" }));
  assert.equal(status, 1);
  const [first, second, third] = text.split(/\n\n(?=\S+: )/);
  assert.match(first!, /^bundled: a Wan model/);
  assert.match(second!, /README\.md: Cannot read ".*README\.md"/);
  assert.match(third!, /outline\.safetensors: a LoRA for Wan.*It fits bundled/s);
  const json = await printed(() => runInspect(paths, { json: true }));
  assert.deepEqual(
    JSON.parse(json.text).map(({ kind }: { kind?: string }) => kind),
    ["model", undefined, "lora"],
  );
  const one = await printed(() => runInspect(["outline"], { json: true }));
  assert.deepEqual([one.status, JSON.parse(one.text).kind], [0, "lora"]);
  await assert.rejects(runInspect([paths[1]], {}), /Cannot read/);
});

Deno.test("runInspect() says what videos and sound are, and which command takes them", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const cases = [
      [
        "bell.wav",
        "RIFF\x24\0\0\0WAVEfmt ",
        /it is a WAV sound, .*; denoise generate --audio takes it$/,
      ],
      ["a.mp4", "\0\0\0\x20ftypisom", /it is an MP4 video, .*; denoise generate --video takes it$/],
      ["a.tif", "II*\0\x08", /it is a TIFF image, .*; convert it to PNG$/],
    ] as const;
    for (const [name, text, message] of cases) {
      const path = `${folder}/${name}`;
      const bytes = Uint8Array.from(text.padEnd(99), (letter) => letter.charCodeAt(0));
      await Deno.writeFile(path, bytes);
      await assert.rejects(runInspect([path], {}), { name: "UsageError", message });
    }
    await assert.rejects(runInspect([`${folder}/gone.wav`], {}), /there is no such file/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("runInspect() shows how images were made, whoever made them", async () => {
  const folder = await Deno.makeTempDir();
  const { log } = console;
  const printed: string[] = [];
  try {
    console.log = (line) => printed.push(line);
    const write = async (name: string, text: Record<string, string>) => {
      const image = { width: 3, height: 2, data: new Uint8Array(18) };
      await Deno.writeFile(`${folder}/${name}`, encodePng(image, { text }));
      return `${folder}/${name}`;
    };
    const parameters = "a fox\nSteps: 5, Sampler: Restart, Seed: 7, Size: 64x64, Model: x\x1b[1m";
    const made = await write("made.png", { parameters });
    const plain = await write("plain.png", {});
    assert.equal(await runInspect([made, plain], {}), 0);
    assert.deepEqual(printed.join("\n").split("\n"), [
      `${made}: a PNG image of 3x2, with a recipe as AUTOMATIC1111 writes it`,
      "",
      "prompt               a fox",
      "model                x\\u001b[1m",
      "seed                 7",
      "size                 64x64",
      "num inference steps  5",
      "",
      "Not used here: sampler Restart",
      "",
      `${plain}: a PNG image of 3x2, which does not say how it was made`,
    ]);
    printed.length = 0;
    assert.equal(await runInspect([made], { json: true }), 0);
    assert.deepEqual(JSON.parse(printed[0]!), {
      ...{ path: made, kind: "image", format: "png", width: 3, height: 2 },
      made_by: "AUTOMATIC1111",
      recipe: {
        ...{ prompt: "a fox", model: "x\x1b[1m", seed: 7, size: "64x64", num_inference_steps: 5 },
      },
      unused: ["sampler Restart"],
    });
  } finally {
    console.log = log;
    await Deno.remove(folder, { recursive: true });
  }
});
