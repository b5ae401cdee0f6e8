import assert from "node:assert/strict";
import { stripTypeScriptTypes } from "node:module";
import { decodeImage } from "../../media/decode.ts";
import { testService } from "../../tests/fakes/service.ts";
import { playground } from "./page.ts";
import { MODULES, STYLES } from "./sources.ts";

/** Most bytes of the page with all that it loads at once, compressed; and with all that it may ever load. */
const MAX_BYTES = 80_000;
const MAX_ALL_BYTES = 140_000;

Deno.test("MODULES and STYLES are all files of the page", () => {
  const folder = new URL("../../playground/", import.meta.url);
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name);
  // The script of /docs is a page of its own.
  const others = ["deno.json", "docs_script.ts"];
  const named = [...Object.keys(MODULES), ...Object.keys(STYLES), ...others];
  assert.deepEqual(files.sort(), named.sort());
});

const textOf = ({ bytes }: { bytes: Uint8Array }) => new TextDecoder().decode(bytes);

Deno.test("playground() is less than 80 KB, compressed, and names no other host", () => {
  const { html, assets, base } = playground();
  const sum = (names: Iterable<string>) =>
    [...names].reduce((sum, name) => sum + assets.get(name)!.gzip.length, html.length);
  assert.ok(sum(base) < MAX_BYTES, `${sum(base)} bytes`);
  assert.ok(sum(assets.keys()) < MAX_ALL_BYTES, `${sum(assets.keys())} bytes`);
  for (const name of ["english.ts", "composer.ts", "preact.js"]) {
    assert.ok(base.includes(name), name);
  }
  for (const name of ["german.ts", "viewer.ts", "snippets.ts"]) {
    assert.ok(!base.includes(name), name);
  }
  for (const text of [html, ...[...assets.values()].map(textOf)]) {
    const hosts = [...text.matchAll(/https?:\/\/[\w.]+/g)].map(([host]) => host);
    // Names of XML, which nobody fetches.
    assert.deepEqual(hosts.filter((host) => host !== "http://www.w3.org"), []);
  }
});

Deno.test("playground() strips types and comments, and nothing else", () => {
  const store = textOf(playground().assets.get("store.ts")!);
  assert.ok(store.includes("export class Store"));
  assert.ok(!store.includes("Partial<T>"));
  for (const [name, asset] of playground().assets) {
    if (!name.endsWith(".ts")) continue;
    const lines = stripTypeScriptTypes(MODULES[name]!).split("\n");
    const code = lines.filter((line) => !/^ *(?:\/\/|\/\*\*|\* |\*\/)/.test(line)).join("\n");
    assert.equal(textOf(asset), code, name);
  }
});

Deno.test("the page can be installed: its manifest names icons that are there, of their sizes", async () => {
  const { html, assets } = playground();
  assert.match(html, /<link rel="manifest" href="playground\/\w+\/app\.webmanifest">/);
  const manifest = JSON.parse(textOf(assets.get("app.webmanifest")!));
  assert.deepEqual([manifest.start_url, manifest.display], ["../../", "standalone"]);
  for (const { src, sizes } of manifest.icons) {
    const { width, height, data } = await decodeImage(assets.get(src)!.bytes);
    assert.equal(`${width}x${height}`, sizes);
    const at = (x: number, y: number) => {
      const i = 3 * (Math.round(y * height) * width + Math.round(x * width));
      return [...data.subarray(i, i + 3)];
    };
    assert.deepEqual([at(0.1, 0.1), at(11 / 16, 6 / 16)], [[74, 72, 200], [255, 255, 255]]);
  }
  const { background_color: colour } = manifest;
  const style = textOf(assets.get("style.css")!);
  const [, light, dark] = /--ground: light-dark\((#\w+), (#\w+)\)/.exec(style)!;
  assert.equal(colour, light);
  for (const one of [light, dark]) assert.ok(html.includes(`content="${one}"`), one);
});

Deno.test("GET / is the page, with a strict policy, and its files without a key", async () => {
  await using service = await testService({ settings: { apiKeys: ["k"] } });
  const response = await service.get("/");
  assert.equal(response.status, 200);
  const policy = response.headers.get("content-security-policy")!;
  assert.match(policy, /^default-src 'none'; script-src 'self' 'sha256-[^']+'; style-src 'self';/);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
  const page = await response.text();
  const files = [...page.matchAll(/(?:href|src)="(playground\/[^"]+)"/g)].map(([, path]) => path);
  assert.ok(files.length > 20);
  for (const path of new Set(files)) {
    const file = await service.get(`/${path}`, { headers: { "accept-encoding": "gzip" } });
    assert.equal(file.status, 200, path);
    assert.match(
      file.headers.get("content-type")!,
      /^(?:text\/(?:javascript|css);|application\/manifest\+json$|image\/png$)/,
    );
    assert.match(file.headers.get("cache-control")!, /immutable/);
    await file.body?.cancel();
  }
  const old = await service.get("/playground/0000/main.ts");
  assert.equal(old.status, 404);
  assert.ok(!service.lines.some((line) => line.includes("/store.ts")), "files are not logged");
});

Deno.test("GET / of a server without a playground is 404", async () => {
  await using service = await testService({ settings: { playground: false } });
  for (const path of ["/", "/playground/0/main.ts"]) {
    const response = await service.get(path);
    assert.equal(response.status, 404);
    assert.match((await response.json()).error.message, /--no-playground/);
  }
});
