/** One server, a small model of every family that edits images, and every form of a mask: what is kept stays to the bit. */
import { strict as assert } from "node:assert";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { decodeImage } from "../../media/decode.ts";
import { encodeImage } from "../../media/encode.ts";
import { withChroma } from "../support/composed.ts";
import { Golden } from "../support/golden.ts";
import { withFolder } from "../support/safetensors.ts";
import { startProcess } from "./server_process.ts";

/** Sides of the image, and those with what is painted around it. */
const SIDE = 64;
const WIDE = 96;

/** Where something is painted. */
type Where = (x: number, y: number) => boolean;

const above: Where = (_, y) => y < SIDE / 2;
const beside: Where = (x) => x >= SIDE;
const around: Where = (x) => x < (WIDE - SIDE) / 2 || x >= (WIDE + SIDE) / 2;

/** The given image: no two pixels nearby are alike. */
const colour = (x: number, y: number, channel: number) => (x * 37 + y * 91 + channel * 53) % 256;

type Colour = typeof colour;

async function png(width: number, height: number, channels: 3 | 4, at: Colour): Promise<Blob> {
  const data = Uint8Array.from({ length: width * height * channels }, (_, i) => {
    const pixel = Math.floor(i / channels);
    return at(pixel % width, Math.floor(pixel / width), i % channels);
  });
  return new Blob([
    (await encodeImage({ width, height, channels, data }, { format: "png" })).bytes,
  ]);
}

/** An image, transparent somewhere. */
const holed = (width: number, where: Where) =>
  png(
    width,
    SIDE,
    4,
    (x, y, channel) => channel < 3 ? colour(x, y, channel) : where(x, y) ? 0 : 255,
  );

/** A mask without transparency. */
const painted = (side: number, value: (y: number) => number) =>
  png(side, side, 3, (_, y) => value(y * SIDE / side));

/** Small models by name. */
async function withModels(use: (paths: ReadonlyMap<string, string>) => Promise<void>) {
  const flux1 = new Golden("flux1/dev").folder;
  const paths = new Map([
    ["bundled", "bundled"],
    ["z_image", new Golden("z_image/pipeline").folder],
    ["qwen_image", new Golden("qwen_image/pipeline").folder],
    ["qwen_image_21", new Golden("qwen_image_21/pipeline").folder],
    ["krea2", new Golden("krea2/pipeline").folder],
    ["ernie_image", new Golden("ernie_image/pipeline").folder],
    ["anima", new Golden("anima/pipeline").folder],
    ["flux1", flux1],
    ["klein", new Golden("flux2/pipeline").folder],
    ["dev", new Golden("flux2/dev").folder],
    ["flux3", new Golden("flux3/pipeline").folder],
    ["ideogram4", new Golden("ideogram4/pipeline").folder],
    ["longcat", new Golden("longcat_image/pipeline").folder],
    ["auraflow", new Golden("auraflow/pipeline").folder],
    ["ovis", new Golden("ovis_image/pipeline").folder],
    ["lumina2", new Golden("lumina2/pipeline").folder],
    ["sd3", new Golden("stable_diffusion_3/pipeline").folder],
    ["wan", new Golden("wan/pipeline-ti2v").folder],
  ]);
  await withChroma((chroma) =>
    withFolder({}, async (folder) => {
      paths.set("chroma", chroma);
      const derived = (name: string, of: string, pipeline: string) => {
        const path = join(folder, name);
        cpSync(of, path, { recursive: true });
        const index = join(path, "model_index.json");
        const changed = { ...JSON.parse(Deno.readTextFileSync(index)), _class_name: pipeline };
        Deno.writeTextFileSync(index, JSON.stringify(changed));
        paths.set(name, path);
        return path;
      };
      derived("kontext", flux1, "FluxKontextPipeline");
      derived("edit", paths.get("qwen_image")!, "QwenImageEditPlusPipeline");
      const fill = derived("fill", flux1, "FluxFillPipeline");
      const { folder: own } = new Golden("flux1/fill");
      cpSync(join(own, "transformer"), join(fill, "transformer"), { recursive: true });
      await use(paths);
    })
  );
}

/** Every form of a mask: what is sent, its width, where it paints, and how far the image was moved. */
async function forms() {
  const image = await png(SIDE, SIDE, 3, colour);
  const half = (y: number) => y < SIDE / 2 ? 255 : 0;
  const grey = (y: number) => y < SIDE / 4 ? 255 : y < SIDE / 2 ? 128 : 0;
  const alpha = await png(
    SIDE,
    SIDE,
    4,
    (x, y, channel) => channel === 3 && !above(x, y) ? 255 : 0,
  );
  const black = await painted(SIDE, () => 0);
  const size = `${WIDE}x${SIDE}`;
  return [
    ["alpha of a file", { image, mask: alpha }, SIDE, above, 0],
    ["white of a file", { image, mask: await painted(SIDE, half) }, SIDE, above, 0],
    ["grey", { image, mask: await painted(SIDE, grey) }, SIDE, above, 0],
    ["a file of twice the size", { image, mask: await painted(2 * SIDE, half) }, SIDE, above, 0],
    ["alpha of the image", { image: await holed(SIDE, above) }, SIDE, above, 0],
    ["a larger canvas", { image: await holed(WIDE, beside) }, WIDE, beside, 0],
    ["contain", { image, mask: black, size, fit: "contain" }, WIDE, around, (WIDE - SIDE) / 2],
  ] as const;
}

Deno.test({
  name:
    "POST /v1/images/edits keeps to the bit what a mask of any form leaves, in every family (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: (t) =>
    withModels(async (paths) => {
      const folder = await Deno.makeTempDir();
      const flags = [...paths].flatMap(([name, path]) => ["--model-path", `${name}=${path}`]);
      try {
        await using server = await startProcess(folder, flags);
        const edit = async (model: string, own: Record<string, string | Blob>) => {
          const form = new FormData();
          const all = { model, prompt: "a red star", num_inference_steps: "2", seed: "3", ...own };
          for (const [field, value] of Object.entries(all)) form.append(field, value);
          form.append("output_format", "png");
          const response = await fetch(`${server.url}/v1/images/edits`, {
            method: "POST",
            body: form,
          });
          const body = await response.json();
          assert.equal(response.status, 200, JSON.stringify(body));
          assert.equal(response.headers.get("x-ignored-fields"), null);
          return await decodeImage(Uint8Array.fromBase64(body.data[0].b64_json));
        };
        const listed = async () =>
          (await (await fetch(`${server.url}/v1/models`)).json()).data.length;
        while (await listed() < paths.size) await new Promise((done) => setTimeout(done, 200));
        for (const model of paths.keys()) {
          for (const [form, fields, width, where, left] of await forms()) {
            await t.step(`${model}: ${form}`, async () => {
              const size = `${width}x${SIDE}`;
              const made = await edit(model, { size, ...fields });
              assert.deepEqual([made.width, made.height], [width, SIDE]);
              let changed = 0;
              for (let i = 0; i < width * SIDE * 3; i++) {
                const pixel = Math.floor(i / 3);
                const [x, y] = [pixel % width, Math.floor(pixel / width)];
                const value = made.data[i];
                if (where(x, y)) changed += Number(value !== colour(x - left, y, i % 3));
                else assert.equal(value, colour(x - left, y, i % 3), `${x}, ${y}`);
              }
              assert.ok(changed > 0, "nothing is painted");
            });
          }
        }
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    }),
});
