/**
 * The examples of the documentation run as they stand, but for a few steps instead of the usual ones; a small model stands
 * in for those that are fetched.
 */

import { strict as assert } from "node:assert";
import { decodeImage } from "../../media/decode.ts";
import { findFfmpeg, probeVideo } from "../../media/video/mod.ts";
import { Golden } from "../support/golden.ts";

const ROOT = new URL("../../", import.meta.url);

/** A small model of the same family as the one that an example names. */
const STAND_IN = new Golden("wan/pipeline-t2v").folder;

/** The blocks of TypeScript in a document, or in the comments of a module. */
function examplesIn(file: string): string[] {
  let text: string;
  try {
    text = Deno.readTextFileSync(new URL(file, ROOT));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
  const plain = text.replace(/^ *\* ?/gm, "");
  return [...plain.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => match[1]!);
}

const isSlow = Deno.env.has("DENOISE_SLOW");

// One that stands in both places runs once.
const examples = new Set(
  ["mod.ts", "server/mod.ts", "README.md", "docs/library.md"].flatMap(examplesIn),
);

Deno.test("mod.ts has an example", () => {
  assert.ok(examplesIn("mod.ts").length > 0);
});

/** The `deno.json` that README gives a project, with the path to this folder. */
function projectConfig(): string {
  const [, config] = /^```json\n(\{\s+"imports"[\s\S]*?)^```$/m.exec(
    Deno.readTextFileSync(new URL("README.md", ROOT)),
  )!;
  return config!.replaceAll("../denoise/", ROOT.href);
}

/** The first of mod.ts and of server/mod.ts; the others run with DENOISE_SLOW. */
const USUAL = [...examplesIn("mod.ts").slice(0, 1), ...examplesIn("server/mod.ts").slice(0, 1)];

for (const example of examples) {
  const [title = ""] = /generate\w*\(.*|serve\(.*|createHandler\(.*/.exec(example) ?? [];
  const name = `the example with ${title} runs as it stands, in a project of its own`;
  const ignore = !isSlow && !USUAL.includes(example);
  Deno.test({ name: ignore ? `${name}; with DENOISE_SLOW` : name, ignore }, async () => {
    const folder = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(`${folder}/deno.json`, projectConfig());
      await Deno.writeTextFile(
        `${folder}/example.ts`,
        example.replaceAll(/"Wan-AI\/[^"]+"/g, JSON.stringify(STAND_IN))
          .replaceAll(/\bprompt: /g, "numInferenceSteps: 2, prompt: "),
      );
      const { code, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-lock", "example.ts"],
        cwd: folder,
        env: { NO_COLOR: "1" },
      }).output();
      assert.equal(code, 0, new TextDecoder().decode(stderr));
      for (const [, name] of example.matchAll(/\.save\("([^"]+)"/g)) {
        const path = `${folder}/${name}`;
        if (path.endsWith(".mp4")) await probeVideo(await findFfmpeg(), path);
        else await decodeImage(await Deno.readFile(path));
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

Deno.test({
  name: `the types of all examples are right in a project of its own${
    isSlow ? "" : "; a minute, with DENOISE_SLOW"
  }`,
  ignore: !isSlow,
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(`${folder}/deno.json`, projectConfig());
      const names = [...examples].map((_, i) => `example_${i}.ts`);
      for (const [i, example] of [...examples].entries()) {
        await Deno.writeTextFile(`${folder}/${names[i]}`, example);
      }
      const { code, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["check", "--no-lock", ...names],
        cwd: folder,
        env: { NO_COLOR: "1" },
      }).output();
      assert.equal(code, 0, new TextDecoder().decode(stderr));
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
