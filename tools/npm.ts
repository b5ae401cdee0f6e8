/** `deno task npm [FOLDER]` makes the npm package for Node, Bun, Deno and bundlers of web pages, in `dist/npm`. Nothing is published. */
import { DAWN_VERSION } from "../runtime/device/backends/dawn_package.ts";
import { bundleAll, makeSite } from "./site.ts";
import { listTree, ROOT } from "./root.ts";
import config from "../deno.json" with { type: "json" };

/** What Node and Bun have in the place of what. */
export const NODE_SWAPS: Readonly<Record<string, string>> = {
  "platform/mod.ts": "node/platform.ts",
  "platform/disk.ts": "node/disk.ts",
  "engine/cards/vulkan_adapters.ts": "node/vulkan_adapters.ts",
};

/** Where the package runs without a browser: modules by the name of their bundle, and what they swap. */
const HOMES = {
  node: {
    entries: {
      "denoise.js": "node/mod.ts",
      "worker.js": "node/worker.ts",
      "compile_worker.js": "node/compile_worker.ts",
    },
    swaps: NODE_SWAPS,
  },
  deno: {
    entries: {
      "denoise.js": "mod.ts",
      "worker.js": "engine/worker.ts",
      "compile_worker.js": "engine/compile_worker.ts",
    },
    swaps: {},
  },
} as const;

const LIBRARY_TYPES = "./types/denoise.d.ts";
const BROWSER = { types: "./types/browser.d.ts", default: "./browser/denoise.js" };

export const PACKAGE = {
  name: config.name,
  version: config.version,
  license: config.license,
  description: "Diffusion models on any GPU, as a library",
  type: "module",
  exports: {
    ".": {
      browser: BROWSER,
      deno: { types: LIBRARY_TYPES, default: "./deno/denoise.js" },
      bun: { types: LIBRARY_TYPES, default: "./node/denoise.js" },
      node: { types: LIBRARY_TYPES, default: "./node/denoise.js" },
      default: { types: LIBRARY_TYPES, default: "./node/denoise.js" },
    },
    "./browser": BROWSER,
    "./client": { types: "./types/client.d.ts", default: "./client.js" },
  },
  engines: { node: ">=24" },
  optionalDependencies: { webgpu: DAWN_VERSION },
};

/** The client, which is one file for all. */
export async function makeClientBundle(folder: string): Promise<void> {
  await bundleAll({ "client.js": "client/mod.ts" }, folder);
}

/** The package without its types and what browsers have of it. */
export async function makeNodePackage(folder: string): Promise<void> {
  await makeClientBundle(folder);
  for (const [home, { entries, swaps }] of Object.entries(HOMES)) {
    await bundleAll(entries, `${folder}/${home}`, { platform: "deno", swaps });
    for (const name of Object.keys(entries)) {
      const path = `${folder}/${home}/${name}`;
      const text = await Deno.readTextFile(path);
      await Deno.writeTextFile(
        path,
        text.replaceAll(/"\.\/((?:compile_)?worker)\.ts"/g, '"./$1.js"'),
      );
    }
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
  const { makeTypes } = await import("./npm_types.ts");
  await makeTypes(`${folder}/types`);
  await makeSite(`${folder}/browser`);
  console.log(`Made ${folder}: npm install it from there, or npm publish it`);
}
