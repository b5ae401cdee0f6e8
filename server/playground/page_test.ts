import assert from "node:assert/strict";
import { testService } from "../../tests/fakes/service.ts";
import { playground } from "./page.ts";
import { MODULES, STYLES } from "./sources.ts";

/** Most bytes of the page with all that it loads, compressed. */
const MAX_BYTES = 80_000;

Deno.test("MODULES and STYLES are all files of the page", () => {
  const folder = new URL("../../playground/", import.meta.url);
  const files = [...Deno.readDirSync(folder)].map(({ name }) => name);
  const named = [...Object.keys(MODULES), ...Object.keys(STYLES), "deno.json"];
  assert.deepEqual(files.sort(), named.sort());
});

Deno.test("playground() is less than 80 KB, compressed, and names no other host", () => {
  const { html, assets } = playground();
  const bytes = [...assets.values()].reduce((sum, { gzip }) => sum + gzip.length, html.length);
  assert.ok(bytes < MAX_BYTES, `${bytes} bytes`);
  for (const text of [html, ...[...assets.values()].map(({ text }) => text)]) {
    const hosts = [...text.matchAll(/https?:\/\/[\w.]+/g)].map(([host]) => host);
    // Names of XML, which nobody fetches.
    assert.deepEqual(hosts.filter((host) => host !== "http://www.w3.org"), []);
  }
});

Deno.test("playground() strips types, and nothing else", () => {
  const { assets } = playground();
  const store = assets.get("store.ts")!.text;
  assert.ok(store.includes("export class Store"));
  assert.ok(!store.includes("Partial<T>"));
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
    assert.match(file.headers.get("content-type")!, /^text\/(?:javascript|css);/);
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
