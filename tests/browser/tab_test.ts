import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";
import * as browserPlatform from "../../browser/platform.ts";
import { readRecipe } from "../../generation/read_recipe.ts";
import { decodeImage } from "../../media/decode.ts";
import { readImageText } from "../../media/encode.ts";
import { loadModel } from "../../mod.ts";
import * as platform from "../../platform/mod.ts";
import { quantizeCheckpoint } from "../../models/checkpoints/quantize/mod.ts";
import { FakeHub } from "../fakes/hub.ts";
import { withComposed } from "../support/composed.ts";
import { Golden } from "../support/golden.ts";
import { withFolder } from "../support/safetensors.ts";
import { PAGE } from "./page.ts";
import { browserTest, openSite } from "./tab.ts";

const PROMPT = { prompt: "a red heart", seed: 7 };

/** How far pixels are from those of this program under Deno. */
async function distance(
  pixels: readonly number[],
  numInferenceSteps: number,
  seed = PROMPT.seed,
): Promise<number> {
  await using model = await loadModel();
  const [{ data }] = await model.generate({ ...PROMPT, seed, numInferenceSteps });
  assert.equal(pixels.length, data.length);
  return data.reduce((most, value, i) => Math.max(most, Math.abs(value - pixels[i]!)), 0);
}

const DRAW = `
  const { loadModel } = await import("./denoise.js");
  const model = await loadModel();
  const draw = async (options) => {
    const [image] = await model.generate({ ...${JSON.stringify(PROMPT)}, ...options });
    return Array.from(image.data);
  };
`;

Deno.test("a tab's platform has the names of Deno's", () => {
  assert.deepEqual(Object.keys(browserPlatform).sort(), Object.keys(platform).sort());
});

Deno.test("the site's bundles need nothing of Deno or Node, and are small enough for the web", async () => {
  await using site = await openSite();
  // What is fetched at once, by brotli; families of models, languages and such are fetched when they are needed.
  const limits: Record<string, number> = {
    "worker.js": 310_000,
    "denoise.js": 590_000,
    "playground.js": 580_000,
  };
  const files = new Map<string, { bytes: number; atOnce: string[]; later: string[] }>();
  const read = async (name: string) => {
    if (files.has(name)) return;
    const text = await (await fetch(`${site.url}${name}`)).text();
    const named = (form: string) =>
      [...text.matchAll(new RegExp(`${form}"\\./([\\w-]+\\.js)"`, "g"))].map(([, part]) => part!);
    const parts = { atOnce: named("(?:from|import) ?"), later: named("import\\(") };
    files.set(name, { bytes: brotliCompressSync(text).byteLength, ...parts });
    // The page copies a program for Deno.
    const own = text.replaceAll(/Deno\.(?:writeFile\(\\?`result-|env\.get\("\$\{)/g, "");
    assert.doesNotMatch(own, /"node:|\bDeno\.(?!test)/, name);
    for (const part of [...parts.atOnce, ...parts.later]) await read(part);
  };
  const withParts = (name: string, all = new Set<string>()): Set<string> => {
    if (all.has(name)) return all;
    all.add(name);
    for (const part of files.get(name)!.atOnce) withParts(part, all);
    return all;
  };
  const bytesOf = (names: Iterable<string>) =>
    [...names].reduce((sum, name) => sum + files.get(name)!.bytes, 0);
  for (const [name, limit] of Object.entries(limits)) {
    await read(name);
    const bytes = bytesOf(withParts(name));
    assert.ok(bytes <= limit, `${name} has ${bytes} bytes by brotli, at most ${limit} are allowed`);
  }
  const worker = withParts("worker.js");
  const families = [...worker].flatMap((name) => files.get(name)!.later)
    .filter((name) => name.startsWith("pipeline-"));
  assert.ok(families.length > 15, `${families}`);
  for (const name of families) {
    const bytes = bytesOf([...withParts(name)].filter((part) => !worker.has(part)));
    assert.ok(bytes <= 60_000, `${name} adds ${bytes} bytes by brotli`);
  }
  const names = [...files.keys()];
  assert.ok(names.some((name) => name.startsWith("german-")), names.join());
});

browserTest(
  "a Firefox tab draws Deno's picture, ends at once, and fetches nothing at its next visit",
  "firefox",
  async () => {
    await using site = await openSite();
    const { pixels, again, stages, closeMs } = await site.run(
      "firefox",
      `${DRAW}
        const stages = new Set();
        const onProgress = ({ stage }) => stages.add(stage);
        const pixels = await draw({ numInferenceSteps: 2, onProgress });
        const before = performance.now();
        await model.close();
        const closeMs = performance.now() - before;
        const first = sessionStorage.getItem("first");
        if (first) return { ...JSON.parse(first), again: pixels };
        sessionStorage.setItem("first", JSON.stringify({ pixels, stages: [...stages], closeMs }));
        location.reload();
        await new Promise(() => {});
      `,
    ) as { pixels: number[]; again: number[]; stages: string[]; closeMs: number };
    assert.ok(await distance(pixels, 2) <= 1);
    assert.deepEqual(again, pixels);
    assert.ok(stages.includes("denoise") && stages.includes("decode"), String(stages));
    assert.ok(closeMs < 5000, `close() took ${closeMs} ms`);
    const fetched = site.requests.filter((path) => path.endsWith(".safetensors"));
    assert.deepEqual(
      [...new Set(fetched)].length,
      fetched.length,
      "a reload fetches nothing again",
    );
    assert.ok(fetched.length >= 3, String(fetched));
  },
);

browserTest(
  "a Firefox tab goes on where a download was cut, and refuses a file that is not as announced",
  "firefox",
  async () => {
    await using site = await openSite();
    const file = new URL(
      "../../models/bundled/vae/diffusion_pytorch_model.safetensors",
      import.meta.url,
    );
    const bytes = await Deno.readFile(file);
    const half = bytes.length >> 1;
    let isCut = true;
    site.add("/bundled/vae/diffusion_pytorch_model.safetensors", (request) => {
      const start = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
      if (!isCut) {
        const headers = { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` };
        return new Response(bytes.subarray(start), { status: start > 0 ? 206 : 200, headers });
      }
      isCut = false;
      return new Response(bytes.subarray(0, half), {
        headers: { "content-length": String(half) },
      });
    });
    const seen = await site.run(
      "firefox",
      `${DRAW}
    const [image] = await model.generate({ prompt: "a red heart", seed: 7, numInferenceSteps: 1 });
    await model.close();
    return image.width;
  `,
    );
    assert.equal(seen, 96);
    const asked = site.requests.filter((path) => path.includes("vae/diffusion"));
    assert.deepEqual(asked.map((path) => path.split(" ")[1] ?? ""), ["", String(half)]);

    site.add("/bundled/vae/diffusion_pytorch_model.safetensors", bytes.map((byte) => byte ^ 1));
    const refused = site.run(
      "firefox",
      `
    const { loadModel } = await import("./denoise.js");
    return await loadModel().then(() => "loaded", ({ message }) => message);
  `,
    );
    assert.match(String(await refused), /SHA-256 is [0-9a-f]{64}, and [0-9a-f]{64} was announced/);
  },
);

browserTest(
  "a Firefox tab starts again where a server lacks a range or gives another, checks files that it does not keep, and refuses no model",
  "firefox",
  async () => {
    await using site = await openSite();
    const path = "vae/diffusion_pytorch_model.safetensors";
    const bytes = await Deno.readFile(new URL(`../../models/bundled/${path}`, import.meta.url));
    const starts: number[] = [];
    site.add(`/bundled/${path}`, (request) => {
      const start = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
      starts.push(start);
      if (start > bytes.length) return new Response(null, { status: 416 });
      if (start > 0) {
        const headers = { "content-range": `bytes 0-${bytes.length - 1}/${bytes.length}` };
        return new Response(bytes, { status: 206, headers });
      }
      return new Response(starts.length > 4 ? bytes.map((byte) => byte ^ 1) : bytes);
    });
    const found = await site.run(
      "firefox",
      `
    const { loadModel } = await import("./denoise.js");
    const listed = await (await fetch("./bundled/files.json")).json();
    const { sha256 } = listed.find(({ path }) => path === ${JSON.stringify(path)});
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("denoise", { create: true });
    const outcome = (...args) => loadModel(...args).then(async (model) => {
      await model.close();
      return "loaded";
    }, ({ message }) => message);
    const outcomes = [];
    for (const size of [${bytes.length + 9}, ${bytes.length >> 1}]) {
      const file = await folder.getFileHandle(sha256, { create: true });
      const stream = await file.createWritable();
      await stream.write(new Uint8Array(size));
      await stream.close();
      await folder.removeEntry(sha256 + ".complete").catch(() => {});
      outcomes.push(await outcome());
    }
    outcomes.push(await outcome("bundled", { cache: "none" }));
    return [...outcomes, await outcome({}), await outcome([])];
  `,
    ) as string[];
    assert.deepEqual(found.slice(0, 2), ["loaded", "loaded"]);
    assert.deepEqual(starts, [bytes.length + 9, 0, bytes.length >> 1, 0, 0]);
    assert.match(found[2]!, /SHA-256 is [0-9a-f]{64}, and [0-9a-f]{64} was announced/);
    assert.match(
      found[3]!,
      /^Cannot load a model: the source names no transformer; give "bundled"/,
    );
    assert.match(found[4]!, /^Cannot load a model: the picked folder has no files/);
  },
  true,
);

browserTest(
  "a Firefox tab adds LoRAs, edits images, stops, and reads files that were picked",
  "firefox",
  async () => {
    await using site = await openSite();
    const { plain, styled, edited, stopped, picked } = await site.run(
      "firefox",
      `${DRAW}
    const options = { numInferenceSteps: 2 };
    const plain = await draw(options);
    const outline = new URL("./bundled/adapters/outline.safetensors", location.href).href;
    const styled = await draw({ ...options, loras: [{ path: outline }] });
    const [image] = await model.generate({ prompt: "a red heart", seed: 7, ...options });
    const edited = await draw({ ...options, images: [await image.toPng()] });
    const stop = new AbortController();
    const stopped = await draw({
      numInferenceSteps: 400,
      signal: stop.signal,
      onProgress: ({ step }) => step >= 2 && stop.abort(),
    }).then(() => "not stopped", ({ name }) => name);
    await model.close();
    const fetched = async (path, name) =>
      new File([await (await fetch("./bundled/" + path)).blob()], name);
    const listed = await (await fetch("./bundled/files.json")).json();
    const files = await Promise.all(listed.map(async ({ path }) => {
      const file = await fetched(path, path.split("/").at(-1));
      Object.defineProperty(file, "webkitRelativePath", { value: "toy/" + path });
      return file;
    }));
    const other = await loadModel(files);
    const [again] = await other.generate({ prompt: "a red heart", seed: 7, ...options });
    await other.close();
    return { plain, styled, edited, stopped, picked: Array.from(again.data) };
  `,
    ) as Record<string, unknown>;
    assert.notDeepEqual(styled, plain);
    assert.notDeepEqual(edited, plain);
    assert.equal(stopped, "AbortError");
    assert.deepEqual(picked, plain);
  },
  true,
);

/** Lends a small Z-Image of published form, its transformer in Q4_K, as two repositories of a hub. */
async function withZImage(
  use: (hub: FakeHub, folder: string, transformer: string) => Promise<void>,
): Promise<void> {
  await withComposed([new Golden("z_image/pipeline")], async (folder) => {
    // Rows of Q4_K have multiples of 256 numbers.
    const own = join(folder, "transformer");
    await Deno.remove(own, { recursive: true });
    cpSync(new Golden("z_image/wide").folder, own, { recursive: true });
    await withFolder({}, async (other) => {
      const transformer = join(other, "z-image-Q4_K.gguf");
      await quantizeCheckpoint(own, transformer, { type: "q4_k" });
      const files: Record<string, Uint8Array<ArrayBuffer>> = {};
      for (const path of walk(folder)) files[path] = await Deno.readFile(join(folder, path));
      const gguf = { "z-image-Q4_K.gguf": await Deno.readFile(transformer) };
      await using hub = new FakeHub({ "toys/z-image": files, "toys/z-image-gguf": gguf });
      await use(hub, folder, transformer);
    });
  });
}

/** Lends the bundled model as a repository of a hub: what Chromium's software GPU draws in seconds. */
async function withShapes(use: (hub: FakeHub) => Promise<void>): Promise<void> {
  const folder = fileURLToPath(new URL("../../models/bundled", import.meta.url));
  const files: Record<string, Uint8Array<ArrayBuffer>> = {};
  for (const path of walk(folder)) {
    if (path.startsWith("adapters/")) continue;
    const bytes = files[path] = await Deno.readFile(join(folder, path));
    // The page has the bundled model's own files already: here a last number is a little different.
    if (path.endsWith(".safetensors")) bytes[bytes.length - 2]! ^= 1;
  }
  await using hub = new FakeHub({ "toys/shapes": files });
  await use(hub);
}

const LENT = {
  firefox: {
    id: "toys/z-image",
    transformer: "toys/z-image-gguf:z-image-Q4_K.gguf",
    lend: withZImage,
  },
  chromium: { id: "toys/shapes", transformer: "", lend: withShapes },
} as const;

function* walk(folder: string, prefix = ""): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(join(folder, prefix))) {
    if (isDirectory) yield* walk(folder, `${prefix}${name}/`);
    else if (!/golden|seeded|adapter/.test(name)) yield `${prefix}${name}`;
  }
}

const OF_Z_IMAGE = { prompt: "a cat", width: 64, height: 32, seed: 3, numInferenceSteps: 2 };

for (const browser of ["firefox", "chromium"] as const) {
  browserTest(
    `${browser} draws with a Z-Image in Q4_K from a hub, and again after a reload without fetching`,
    browser,
    () =>
      withZImage(async (hub, folder, transformer) => {
        await using model = await loadModel(folder, { parts: { transformer } });
        const [expected] = await model.generate(OF_Z_IMAGE);
        await using site = await openSite();
        site.forward(hub.endpoint);
        const found = await site.run(
          browser,
          `
          const { estimate, loadModel } = await import("./denoise.js");
          const options = {
            hub: location.origin,
            parts: { transformer: "toys/z-image-gguf:z-image-Q4_K.gguf" },
          };
          const before = await estimate("toys/z-image", options);
          const model = await loadModel("toys/z-image", options);
          const [image] = await model.generate(${JSON.stringify(OF_Z_IMAGE)});
          await model.close();
          const now = { before, pixels: Array.from(image.data), precisions: model.info.precisions };
          const first = sessionStorage.getItem("first");
          if (first) return { first: JSON.parse(first), again: now };
          sessionStorage.setItem("first", JSON.stringify(now));
          location.reload();
          await new Promise(() => {});
        `,
          { limitMs: 1_200_000 },
        ) as Record<
          "first" | "again",
          {
            pixels: number[];
            before: { bytes: number; missingBytes: number };
            precisions: Record<string, string>;
          }
        >;
        const { first, again } = found;
        const farthest = expected.data.reduce(
          (most, value, i) => Math.max(most, Math.abs(value - first.pixels[i]!)),
          0,
        );
        assert.ok(farthest <= 1, `a byte differs by ${farthest}`);
        assert.deepEqual(again.pixels, first.pixels);
        assert.match(first.precisions["transformer"]!, /q4_k/i);
        assert.ok(first.before.missingBytes === first.before.bytes && first.before.bytes > 1e6);
        assert.equal(again.before.missingBytes, 0);
        const weights = hub.filesSeen.filter((path) => /\.(gguf|safetensors)$/.test(path));
        assert.equal(new Set(weights).size, weights.length, "each file is fetched once");
        assert.ok(!weights.some((path) => path.includes("/transformer/")), String(weights));
      }),
    true,
  );
}

for (const browser of ["firefox", "chromium"] as const) {
  const { id, transformer, lend } = LENT[browser];
  browserTest(
    `${browser}'s page says what a model of a hub takes of disk and GPU before it fetches, draws with it, and fetches nothing to load it after a reload`,
    browser,
    () =>
      lend(async (hub) => {
        await using site = await openSite();
        site.forward(hub.endpoint);
        const rangesOfWeights = () =>
          hub.seen.flatMap(({ path, range }) =>
            /\.(gguf|safetensors)$/.test(path) ? [range ?? "all"] : []
          );
        let atPlan: string[] = [];
        site.add("/planned", () => {
          atPlan = rangesOfWeights();
          return new Response();
        });
        const found = await site.run(
          browser,
          `${
            PAGE.replace("{ settings", '{ size: "64x32", settings')
              .replace("num_inference_steps: 2", "num_inference_steps: 1")
          }
          const page = () => frame.contentDocument;
          const press = async (text) => (await until(() => [...page().querySelectorAll("button")]
            .find((found) => found.textContent.includes(text) && !found.disabled))).click();
          const status = () => page().querySelector("dialog [role=status]")?.textContent;
          await until("main textarea");
          await press("Model");
          await write(await until("#hub-address"), location.origin);
          await write(await until("#hub-transformer"), "${transformer}");
          await write(await until("#hub-id"), "${id}");
          await press("How large");
          const cost = await until(() => /to fetch/.test(status()) && status());
          await fetch("/planned");
          await press("Fetch and load");
          await until(() => page().querySelector(".model")?.textContent === "${id}");
          await write(await until("main textarea"), "a cat");
          await generate();
          const first = await shown();
          const loaded = new Promise((resolve) => frame.onload = resolve);
          frame.contentWindow.location.reload();
          await loaded;
          await until(() => page().querySelector(".model")?.textContent === "${id}");
          return { cost, sides: first.sides };
        `,
          { limitMs: 1_200_000 },
        ) as { cost: string; sides: number[] };
        assert.match(
          found.cost,
          /^\d+ MB to fetch\. .*A result of (?:256×256|96×96) takes \d+ MB of the GPU, of/,
        );
        const ends = atPlan.map((range) => Number(/^bytes=0-(\d+)$/.exec(range)?.[1]));
        assert.ok(
          ends.length === 3 && ends.every((end) => end < 2 ** 20),
          `headers alone: ${ends}`,
        );
        assert.deepEqual(rangesOfWeights().slice(3), ["all", "all", "all"], "once");
        assert.deepEqual(found.sides, [64, 32]);
      }),
    true,
  );
}

browserTest(
  "the page for reports measures in Firefox, and shows what may be posted",
  "firefox",
  async () => {
    await using site = await openSite();
    const { text, isPostHidden } = await site.run(
      "firefox",
      `
    const page = new DOMParser().parseFromString(await (await fetch("./report.html")).text(), "text/html");
    document.body.replaceWith(document.importNode(page.body, true));
    const option = document.querySelector("select[name=minutes] option");
    option.value = "0.5";
    option.selected = true;
    await import("./report.js");
    document.getElementById("start").click();
    const now = document.getElementById("now");
    while (now.textContent !== "Done.") await new Promise((resolve) => setTimeout(resolve, 200));
    return {
      text: document.getElementById("text").value,
      isPostHidden: document.getElementById("post").hidden,
    };
  `,
      { limitMs: 240_000 },
    ) as { text: string; isPostHidden: boolean };
    assert.match(text, /^# GPU report: /);
    assert.match(text, /firefox \d+ · linux/);
    assert.match(text, /A browser made this/);
    const [, passed, ran] = /browser: (\d+) of (\d+) results equal/.exec(text)!;
    assert.equal(passed, ran);
    assert.ok(Number(ran) > 3);
    assert.doesNotMatch(text, /127\.0\.0\.1|\/tmp\//);
    assert.ok(isPostHidden, "nothing can be posted where no address was given");
  },
  true,
);

interface Shown {
  readonly sides: number[];
  readonly bytes: string;
}

for (const browser of ["firefox", "chromium"] as const) {
  browserTest(
    `the playground without a server draws Deno's picture in ${browser}, and has it after a reload`,
    browser,
    async () => {
      await using site = await openSite();
      const { first, again, previews } = await site.run(
        browser,
        `${PAGE}
        await write(await until("main textarea"), "a red heart");
        await generate();
        const previews = (await until(".gallery img[src^=data]")).src.length;
        const first = await shown();
        const loaded = new Promise((resolve) => frame.onload = resolve);
        frame.contentWindow.location.reload();
        await loaded;
        const again = await shown();
        return { first, again, previews };
      `,
        { limitMs: 240_000 },
      ) as { first: Shown; again: Shown; previews: number };
      assert.deepEqual(first.sides, [96, 96]);
      assert.ok(previews > 1000, "a preview was shown");
      assert.equal(again.bytes, first.bytes);
      const file = Uint8Array.from(first.bytes.split(",").map(Number));
      const { seed } = readRecipe(readImageText(file))!;
      assert.ok(await distance([...(await decodeImage(file)).data], 2, seed) <= 1);
      assert.deepEqual(
        site.requests.filter((path) => /v1|health/.test(path)),
        [],
        "nothing is asked of the host",
      );
    },
  );
}
