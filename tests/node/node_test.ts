/** The npm package under Node, Bun and Deno. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as disk from "../../platform/disk.ts";
import * as nodeDisk from "../../node/disk.ts";
import * as nodePlatform from "../../node/platform.ts";
import * as platform from "../../platform/mod.ts";
import { decodeImage } from "../../media/decode.ts";
import { loadModel } from "../../mod.ts";
import { makeNodePackage, PACKAGE } from "../../tools/npm.ts";
import { DENO, ROOT } from "../../tools/root.ts";
import { findHomes, type Home } from "./homes.ts";

const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";
const found = existsSync(SWIFTSHADER) ? await findHomes() : undefined;
const isSlow = Deno.env.has("DENOISE_SLOW");

Deno.test("Node's platform and disk have the names of Deno's", () => {
  const own = Object.keys(nodePlatform).filter((name) => !name.startsWith("withAbsence"));
  assert.deepEqual(own.sort(), Object.keys(platform).sort());
  assert.deepEqual(Object.keys(nodeDisk).sort(), Object.keys(disk).sort());
});

/** A project with the package, and a way to run its programs. */
async function openProject() {
  const folder = await Deno.makeTempDir();
  const modules = join(folder, "node_modules");
  await makeNodePackage(join(modules, "denoise"));
  await Deno.symlink(found!.webgpu, join(modules, "webgpu"));
  return {
    folder,
    async run({ program, args: own }: Home, source: string, ...args: string[]) {
      const path = join(folder, "program.mjs");
      await Deno.writeTextFile(path, source);
      const { success, stdout, stderr } = await new Deno.Command(program, {
        args: [...own, path, ...args],
        cwd: folder,
        env: { VK_DRIVER_FILES: SWIFTSHADER, VK_ICD_FILENAMES: SWIFTSHADER, DENOISE_CACHE: "off" },
      }).output();
      const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.ok(success, `${program}: ${errors}`);
      return out!.trim();
    },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

Deno.test({
  name:
    "the npm package opens a model under Node, Bun and Deno, and says what is wrong with a request, or that a program is missing",
  ignore: !found,
  async fn() {
    await using project = await openProject();
    const source = `
      import { loadModel } from "denoise";
      const model = await loadModel();
      const refused = await model.generate({ prompt: "a", width: 7 }).catch(({ message }) => message);
      const missing = await loadModel("nothing/here/at-all").catch(({ message }) => message);
      process.env.FFMPEG = "/no/such/ffmpeg";
      const noFfmpeg = await model.generateVideo({ prompt: "a", video: process.argv[1] })
        .catch(({ message }) => message);
      await model.close();
      console.log(JSON.stringify({ className: model.info.className, refused, missing, noFfmpeg }));
    `;
    for (const home of found!.homes) {
      const { name } = home;
      const { className, refused, missing, noFfmpeg } = JSON.parse(
        await project.run(home, source),
      );
      assert.equal(className, "WanPipeline", name);
      assert.match(refused, /^Cannot generate 7x96: /, name);
      assert.match(missing, /it does not exist/, name);
      assert.match(noFfmpeg, /FFmpeg/, `${name}: ${noFfmpeg}`);
    }
  },
});

Deno.test({
  name: "the package draws Deno's picture under Node, Bun and Deno (slow)",
  ignore: !found || !isSlow,
  async fn() {
    await using project = await openProject();
    await using model = await loadModel();
    const example = await Deno.readTextFile(new URL("examples/draw.mjs", ROOT));
    const request = { prompt: "a red heart", seed: 7, numInferenceSteps: 2 };
    const [{ data }] = await model.generate(request);
    for (const home of found!.homes) {
      const { name } = home;
      const path = join(project.folder, `${name}.png`);
      await project.run(home, example, path, "2");
      const drawn = await decodeImage(await Deno.readFile(path));
      const far = data.filter((value, i) => Math.abs(value - drawn.data[i]!) > 1);
      assert.equal(far.length, 0, `${name}: ${far.length} bytes are off by more than 1`);
    }
  },
});

/** Programs against the package's types, by how TypeScript finds them. */
const CONSUMERS = [
  {
    module: "nodenext",
    conditions: [],
    source: `
      import { FieldError, loadModel, planModel, SAMPLERS, type SamplerName } from "denoise";
      import { Client } from "denoise/client";
      const sampler: SamplerName = SAMPLERS[0]!;
      const plan = await planModel("bundled", { width: 96 });
      export const { adapter }: { adapter: string } = plan;
      await using model = await loadModel("bundled", { maxVramBytes: 2 ** 30 });
      const [{ recipe, data }] = await model.generate({ prompt: "a", sampler, seed: 7 });
      export const pixels: Uint8Array = data;
      export const seed: number = recipe.seed;
      export const isField = (error: unknown) => error instanceof FieldError && error.field;
      for await (const event of new Client({ url: "http://localhost" }).image({ prompt: "a" })) {
        if (event.type === "progress") console.log(event.fraction);
      }
      // @ts-expect-error A prompt is needed.
      await model.generate({});
    `,
  },
  {
    module: "preserve",
    conditions: ["browser"],
    source: `
      import { estimate, loadModel } from "denoise";
      import { loadModel as same, type ModelSource } from "denoise/browser";
      const source: ModelSource = { transformer: new Blob() };
      const { missingBytes } = await estimate(source);
      const model = await (missingBytes > 0 ? loadModel : same)(source, { cache: "opfs" });
      const [image] = await model.generate({ prompt: "a" });
      document.querySelector("img")!.src = URL.createObjectURL(await image.toBlob());
      // @ts-expect-error A tab has no folders.
      await loadModel(["a folder"]);
    `,
  },
];

Deno.test({
  name: "the npm package's types are those of its entries (slow)",
  ignore: !isSlow,
  async fn() {
    const folder = await Deno.makeTempDir();
    const modules = join(folder, "node_modules", "denoise");
    const [{ makeTypes }, { default: ts }] = await Promise.all([
      import("../../tools/npm_types.ts"),
      import("typescript"),
    ]);
    await makeTypes(join(modules, "types"));
    await Deno.writeTextFile(join(modules, "package.json"), JSON.stringify(PACKAGE));
    await Deno.writeTextFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    for (const { module, conditions, source } of CONSUMERS) {
      await Deno.writeTextFile(join(folder, "program.ts"), source);
      const { success, stdout } = await new Deno.Command(DENO, {
        args: [
          ...[
            "run",
            "-A",
            "--quiet",
            "--no-config",
            "--no-lock",
            `npm:typescript@${ts.version}/tsc`,
          ],
          ...["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "esnext"],
          ...["--module", module],
          ...conditions.flatMap((name) => ["--customConditions", name]),
          "program.ts",
        ],
        cwd: folder,
      }).output();
      assert.ok(success, `${module}: ${new TextDecoder().decode(stdout)}`);
    }
    await Deno.remove(folder, { recursive: true });
  },
});
