/** `deno task npm [FOLDER]` makes the npm package for Node, Bun and bundlers of web pages, in `dist/npm`. Nothing is published. */
import { DAWN_VERSION } from "../runtime/device/backends/dawn_package.ts";
import { bundle, makeSite } from "./site.ts";
import { listTree, ROOT } from "./root.ts";
import config from "../deno.json" with { type: "json" };

/** What Node and Bun have in the place of what. */
export const NODE_SWAPS: Readonly<Record<string, string>> = {
  "platform/mod.ts": "node/platform.ts",
  "platform/disk.ts": "node/disk.ts",
  "engine/cards/vulkan_adapters.ts": "node/vulkan_adapters.ts",
};

/** Modules by the name of their bundle. */
const NODE_ENTRIES: Readonly<Record<string, string>> = {
  "denoise.js": "node/mod.ts",
  "worker.js": "node/worker.ts",
  "compile_worker.js": "node/compile_worker.ts",
};

const PACKAGE = {
  name: config.name,
  version: config.version,
  license: config.license,
  description: "Diffusion models on any GPU, as a library",
  type: "module",
  exports: {
    ".": { browser: "./browser/denoise.js", default: "./node/denoise.js" },
    "./browser": "./browser/denoise.js",
    "./client": "./client.js",
  },
  engines: { node: ">=24" },
  optionalDependencies: { webgpu: DAWN_VERSION },
};

/** The client, which is one file for all. */
export async function makeClientBundle(folder: string): Promise<void> {
  await bundle("client/mod.ts", `${folder}/client.js`);
}

/** The package without what browsers have of it. */
export async function makeNodePackage(folder: string): Promise<void> {
  await Deno.mkdir(`${folder}/node`, { recursive: true });
  await makeClientBundle(folder);
  for (const [name, entry] of Object.entries(NODE_ENTRIES)) {
    const path = `${folder}/node/${name}`;
    await bundle(entry, path, { platform: "deno", swaps: NODE_SWAPS });
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(
      path,
      text.replaceAll(/"\.\/((?:compile_)?worker)\.ts"/g, '"./$1.js"'),
    );
  }
  for (const path of listTree("models/bundled/", [".json", ".safetensors", ".md"])) {
    const to = `${folder}/${path}`;
    await Deno.mkdir(to.replace(/\/[^/]*$/, ""), { recursive: true });
    await Deno.copyFile(new URL(path, ROOT), to);
  }
  await Deno.copyFile(new URL("LICENSE", ROOT), `${folder}/LICENSE`);
  await Deno.writeTextFile(`${folder}/package.json`, `${JSON.stringify(PACKAGE, null, 2)}\n`);
}

if (import.meta.main) {
  const [folder = "dist/npm"] = Deno.args;
  await makeNodePackage(folder);
  await makeSite(`${folder}/browser`);
  console.log(`Made ${folder}: npm install it from there, or npm publish it`);
}
