/** The code in docs/add-an-op.md and docs/add-a-family.md works as it stands. */
import { strict as assert } from "node:assert";
import { cpSync, existsSync } from "node:fs";
import { dirname, join } from "node:path/posix";
import { fileURLToPath, pathToFileURL } from "node:url";
import { openModelFiles } from "../../models/checkpoints/open_model.ts";
import { openFamily } from "../../models/pipeline/diffusion_pipeline.ts";
import type { Family } from "../../models/pipeline/family.ts";
import { openDevice } from "../../runtime/mod.ts";
import { type OpSuite, runCase } from "../../runtime/conformance.ts";
import { randomNormal } from "../../runtime/ops/ndarray.ts";
import { Golden } from "../support/golden.ts";
import { safetensorsOf, type TensorValues, withFolder } from "../support/safetensors.ts";

const ROOT = new URL("../../", import.meta.url);

const isSlow = Deno.env.has("DENOISE_SLOW");

/** The files that a tutorial writes: blocks of code whose first line names one. */
function filesIn(document: string): Map<string, string> {
  const text = Deno.readTextFileSync(new URL(document, ROOT));
  const blocks = text.matchAll(/^```(?:ts|wgsl)\n\/\/ (\S+\/\w+\.\w+)\n([\s\S]*?)^```$/gm);
  return new Map([...blocks].map(([, path, code]) => [path!, code!]));
}

/** Calls `use` with a folder of these files, whose other imports lead into the repository. */
async function withFiles(
  files: ReadonlyMap<string, string>,
  use: (urlOf: (path: string) => string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    for (const [path, code] of files) {
      const linked = code.replaceAll(/from "(\.[^"]+)"/g, (whole, specifier: string) => {
        const target = join(dirname(path), specifier);
        return files.has(target) ? whole : `from "${new URL(target, ROOT)}"`;
      });
      await Deno.mkdir(`${folder}/${dirname(path)}`, { recursive: true });
      await Deno.writeTextFile(`${folder}/${path}`, linked);
    }
    await use((path) => pathToFileURL(`${folder}/${path}`).href);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("the op of docs/add-an-op.md equals its reference in every case", async (t) => {
  const files = filesIn("docs/add-an-op.md");
  const path = "runtime/ops/clamp/cases.ts";
  assert.ok(files.has(path));
  await withFiles(files, async (urlOf) => {
    const { CLAMP_SUITE } = await import(urlOf(path)) as { CLAMP_SUITE: OpSuite };
    const device = await openDevice();
    try {
      for (const testCase of CLAMP_SUITE.cases) {
        await t.step(testCase.name, () => runCase(device, testCase));
      }
    } finally {
      device.destroy();
    }
  });
});

const TUTORIALS = ["docs/add-an-op.md", "docs/add-a-family.md"];

Deno.test("the code of the tutorials imports files that are there", () => {
  for (const document of TUTORIALS) {
    const files = filesIn(document);
    for (const [path, code] of files) {
      for (const [, specifier] of code.matchAll(/from "(\.[^"]+)"/g)) {
        const target = join(dirname(path), specifier!);
        const isThere = files.has(target) || existsSync(new URL(target, ROOT));
        assert.ok(isThere, `${document}: ${path} imports ${target}`);
      }
    }
  }
});

Deno.test({
  name: "the family of docs/add-a-family.md makes an image (slow)",
  ignore: !isSlow,
  fn: () =>
    withFiles(filesIn("docs/add-a-family.md"), async (urlOf) => {
      const path = "models/families/tiny_dit/pipeline.ts";
      const { TINY_DIT } = await import(urlOf(path)) as { TINY_DIT: Family };
      const golden = new Golden("z_image/pipeline");
      await withFolder({}, async (folder) => {
        cpSync(golden.folder, folder, { recursive: true });
        await becomeTinyDit(folder);
        const device = await openDevice();
        try {
          const files = await openModelFiles(folder, {}, [TINY_DIT.files]);
          using pipeline = await openFamily(TINY_DIT, files);
          await pipeline.load(device);
          for (const guidanceScale of [1, 4]) {
            const { frames } = await pipeline.generate({
              ...pipeline.info.defaults,
              ...{ task: "T2I", width: 32, height: 32, numInferenceSteps: 2, guidanceScale },
              ...{ prompt: "a cat", seed: 1 },
            });
            assert.equal(frames[0]!.length, 32 * 32 * 3);
            assert.ok(new Set(frames[0]).size > 100, "the image is not flat");
          }
        } finally {
          device.destroy();
        }
      });
    }),
});

Deno.test({
  name: "the code of the tutorials has no error of types (slow)",
  ignore: !isSlow,
  fn: async () => {
    const files = new Map(TUTORIALS.flatMap((document) => [...filesIn(document)]));
    for (const excerpt of ["runtime/ops/mod.ts", "models/mod.ts"]) files.delete(excerpt);
    await withFiles(files, async (urlOf) => {
      const modules = [...files.keys()].filter((path) => path.endsWith(".ts")).map(urlOf);
      const { code, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["check", "--config", fileURLToPath(new URL("deno.json", ROOT)), ...modules],
        env: { NO_COLOR: "1" },
      }).output();
      assert.equal(code, 0, new TextDecoder().decode(stderr));
    });
  },
});

/** Puts a transformer of random weights into a copy of a Z-Image folder. */
async function becomeTinyDit(folder: string): Promise<void> {
  const transformer = `${folder}/transformer`;
  const [dim, channels, width] = [128, 16, 256];
  const tensors: Record<string, TensorValues> = {};
  const linear = (name: string, rows: number, columns: number) => {
    const seed = Object.keys(tensors).length + 1;
    const shape = [rows, columns];
    const values = randomNormal(shape, seed, columns ** -0.5).data;
    tensors[`${name}.weight`] = { dtype: "f32", shape, values };
    tensors[`${name}.bias`] = { dtype: "f32", shape: [rows], values: new Float32Array(rows) };
  };
  linear("caption_projection", dim, width);
  linear("time_embed", dim, 256);
  linear("x_embedder", dim, 4 * channels);
  linear("proj_out", 4 * channels, dim);
  for (const layer of ["layers.0", "layers.1"]) {
    for (const name of ["to_q", "to_k", "to_v", "to_out.0"]) linear(`${layer}.${name}`, dim, dim);
    linear(`${layer}.ff.0`, 4 * dim, dim);
    linear(`${layer}.ff.2`, dim, 4 * dim);
    for (const name of ["norm1", "norm2"]) {
      const values = new Float32Array(dim).fill(1);
      tensors[`${layer}.${name}.weight`] = { dtype: "f32", shape: [dim], values };
    }
  }
  const index = JSON.parse(await Deno.readTextFile(`${folder}/model_index.json`));
  const className = "TinyDiTTransformer2DModel";
  await Deno.writeTextFile(
    `${folder}/model_index.json`,
    JSON.stringify({
      ...index,
      _class_name: "TinyDiTPipeline",
      transformer: ["diffusers", className],
    }),
  );
  await Deno.writeTextFile(
    `${transformer}/config.json`,
    JSON.stringify({
      ...{ _class_name: className, in_channels: channels, dim },
      ...{ n_layers: 2, n_heads: 2, cap_feat_dim: width },
    }),
  );
  for (const { name } of [...Deno.readDirSync(transformer)]) {
    if (name !== "config.json") await Deno.remove(`${transformer}/${name}`);
  }
  await Deno.writeFile(
    `${transformer}/diffusion_pytorch_model.safetensors`,
    safetensorsOf(tensors),
  );
}
