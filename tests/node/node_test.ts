/** The npm package under Node and Bun. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as disk from "../../platform/disk.ts";
import * as nodeDisk from "../../node/disk.ts";
import * as nodePlatform from "../../node/platform.ts";
import * as platform from "../../platform/mod.ts";
import { decodeImage } from "../../media/decode.ts";
import { loadModel } from "../../mod.ts";
import { makeNodePackage } from "../../tools/npm.ts";
import { ROOT } from "../../tools/root.ts";
import { findHomes } from "./homes.ts";

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
    async run(program: string, source: string, ...args: string[]) {
      const path = join(folder, "program.mjs");
      await Deno.writeTextFile(path, source);
      const { success, stdout, stderr } = await new Deno.Command(program, {
        args: [path, ...args],
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
    "the npm package opens a model under Node and Bun, and says what is wrong with a request, or that a program is missing",
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
    for (const { name, program } of found!.homes) {
      const { className, refused, missing, noFfmpeg } = JSON.parse(
        await project.run(program, source),
      );
      assert.equal(className, "WanPipeline", name);
      assert.match(refused, /^Cannot generate 7x96: /, name);
      assert.match(missing, /it does not exist/, name);
      assert.match(noFfmpeg, /FFmpeg/, `${name}: ${noFfmpeg}`);
    }
  },
});

Deno.test({
  name: "the example draws Deno's picture under Node and Bun (slow)",
  ignore: !found || !isSlow,
  async fn() {
    await using project = await openProject();
    await using model = await loadModel();
    const example = await Deno.readTextFile(new URL("examples/draw.mjs", ROOT));
    const request = { prompt: "a red heart", seed: 7, numInferenceSteps: 2 };
    const [{ data }] = await model.generate(request);
    for (const { name, program } of found!.homes) {
      const path = join(project.folder, `${name}.png`);
      await project.run(program, example, path, "2");
      const drawn = await decodeImage(await Deno.readFile(path));
      const far = data.filter((value, i) => Math.abs(value - drawn.data[i]!) > 1);
      assert.equal(far.length, 0, `${name}: ${far.length} bytes are off by more than 1`);
    }
  },
});
