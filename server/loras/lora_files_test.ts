import { strict as assert } from "node:assert";
import { join } from "node:path";
import { FakeHub } from "../../tests/fakes/hub.ts";
import { obtainHubLora } from "../../hub/lora_file.ts";
import { onBehalfOf } from "../../media/isolated/slots.ts";
import { LoraFiles, type LoraFilesOptions } from "./lora_files.ts";

async function withHub(
  use: (files: LoraFiles, hub: FakeHub, lines: string[], folder: string) => Promise<void>,
  options: Partial<LoraFilesOptions> & { isOffline?: boolean } = {},
): Promise<void> {
  const folder = await Deno.makeTempDir();
  await using hub = new FakeHub({ "org/one": { "a.safetensors": "one" }, "org/none": { a: "" } });
  const lines: string[] = [];
  const { isOffline = false, ...rest } = options;
  const settings = { endpoint: hub.endpoint, isOffline, cacheFolder: join(folder, "hub") };
  const files = new LoraFiles({
    folders: [folder],
    named: {},
    allowHub: true,
    hubLimits: { minFreeBytes: 0 },
    log: (line) => lines.push(line),
    hub: { ...settings, token: "operator" },
    ...rest,
  });
  try {
    await use(files, hub, lines, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("LoraFiles.find() fetches nothing from a hub unless it is allowed", () =>
  withHub(async (files, hub, _, folder) => {
    const refused = { name: "ApiError", status: 400, message: /fetches nothing from a hub/ };
    for (const id of ["org/one", "org/one:a.safetensors", "org/unknown"]) {
      await assert.rejects(files.find(id), refused);
    }
    assert.equal(hub.seen.length, 0);
    // What the operator fetched is there for clients, too.
    const cacheFolder = join(folder, "hub");
    const settings = { endpoint: hub.endpoint, isOffline: false, cacheFolder };
    await obtainHubLora({ id: "org/one" }, { settings });
    const seen = hub.seen.length;
    assert.equal(await Deno.readTextFile(await files.find("org/one")), "one");
    const elsewhere = new LoraFiles({
      ...{ folders: [join(folder, "other")], named: {}, allowHub: false },
      ...{ hub: settings, log: () => {} },
    });
    await assert.rejects(elsewhere.find("org/one"), refused);
    assert.equal(hub.seen.length, seen);
  }, { allowHub: false }));

Deno.test("LoraFiles.find() never shows the operator's token to a hub", () =>
  withHub(async (files, hub) => {
    await files.find("org/one");
    assert.ok(hub.seen.length > 0);
    assert.deepEqual(hub.seen.filter(({ hasToken }) => hasToken), []);
    hub.behaviour.token = "operator";
    await assert.rejects(files.find("org/none"), { status: 400, message: /refuses access/ });
  }));

Deno.test("LoraFiles.find() refuses what is too large before it is fetched", () =>
  withHub(async (files, hub) => {
    await assert.rejects(files.find("org/one"), { status: 400, message: /3 bytes, and at most 2/ });
    assert.deepEqual(hub.filesSeen, []);
  }, { hubLimits: { maxBytes: 2, minFreeBytes: 0 } }));

Deno.test("LoraFiles.find() leaves room on the disk", () =>
  withHub(async (files, hub) => {
    const message = /the disk of its cache has \d+\.\d GB free, of which .* are to stay so/;
    await assert.rejects(files.find("org/one"), { status: 502, message });
    assert.deepEqual(hub.filesSeen, []);
  }, { hubLimits: { minFreeBytes: 2 ** 60 } }));

Deno.test("LoraFiles.find() fetches so many at once, and each for so long", () =>
  withHub(async (files, hub) => {
    hub.behaviour.failures = Array.from({ length: 20 }, () => 503);
    const first = assert.rejects(files.find("org/one"), { status: 504, message: /longer than/ });
    while (hub.seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    await assert.rejects(files.find("org/none"), { status: 503, message: /1 others are being/ });
    await first;
  }, { hubLimits: { maxAtOnce: 1, maxMs: 500, minFreeBytes: 0 } }));

Deno.test("LoraFiles.find() leaves the last place for fetches to other clients", () =>
  withHub(async (files, hub) => {
    hub.behaviour.failures = Array.from({ length: 40 }, () => 503);
    const as = (client: string, id: string) => onBehalfOf.run(client, () => files.find(id));
    const first = assert.rejects(as("a", "org/one"), { status: 504 });
    while (hub.seen.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    await assert.rejects(as("a", "org/none"), { status: 503, message: /1 others are being/ });
    await assert.rejects(as("b", "org/none"), { status: 400 });
    await first;
  }, { hubLimits: { maxAtOnce: 2, maxMs: 500, minFreeBytes: 0 } }));

Deno.test("LoraFiles.find() fetches a hub id once, and says so in the log", () =>
  withHub(async (files, hub, lines) => {
    for (const id of ["org/one", "org/one", "org/one:a.safetensors"]) {
      assert.equal(await Deno.readTextFile(await files.find(id)), "one");
    }
    assert.deepEqual(lines, ["Fetching LoRA org/one from the hub for a client"]);
    assert.equal(hub.filesSeen.length, 1);
  }));

Deno.test("LoraFiles.find() serves clients that ask for the same hub id at once", () =>
  withHub(async (files, hub) => {
    const clients = Array.from({ length: 16 }, () => files.find("org/one"));
    for (const file of await Promise.all(clients)) {
      assert.equal(await Deno.readTextFile(file), "one");
    }
    assert.equal(hub.filesSeen.length, 1);
  }));

Deno.test("LoraFiles.find() takes a hub id for what a client got wrong, and an outage for ours", async () => {
  await withHub(async (files) => {
    for (const id of ["org/none", "org/unknown", "org/one:b.safetensors"]) {
      await assert.rejects(files.find(id), { name: "ApiError", status: 400 }, id);
    }
  });
  await withHub(
    (files) => assert.rejects(files.find("org/one"), { status: 502, message: /HF_HUB_OFFLINE/ }),
    { isOffline: true },
  );
});

Deno.test("LoraFiles.find() stops fetching when its client has gone", () =>
  withHub(async (files, hub) => {
    hub.behaviour.failures = Array.from({ length: 20 }, () => 503);
    const leaving = new AbortController();
    const gone = assert.rejects(files.find("org/one", leaving.signal), { name: "AbortError" });
    while (hub.filesSeen.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    leaving.abort();
    await gone;
    const { length } = hub.seen;
    await new Promise((resolve) => setTimeout(resolve, 700));
    assert.equal(hub.seen.length, length);
  }));

Deno.test({
  name: "LoraFiles.find() leaves files where their settings are, in caches that hold links",
  // Users of Windows may make no links.
  ignore: Deno.build.os === "windows",
  fn: testLinks,
});

async function testLinks() {
  const cache = await Deno.realPath(await Deno.makeTempDir());
  const snapshot = join(cache, "models--org--one", "snapshots", "1");
  try {
    await Deno.mkdir(snapshot, { recursive: true });
    await Deno.writeTextFile(join(cache, "blob"), "one");
    const file = join(snapshot, "adapter_model.safetensors");
    await Deno.symlink(join(cache, "blob"), file);
    const files = new LoraFiles({
      folders: [snapshot, cache],
      named: {},
      allowHub: false,
      log: () => {},
    });
    const paths = [file, snapshot, "adapter_model.safetensors", snapshot.slice(cache.length + 1)];
    for (const path of paths) assert.equal(await files.find(path), file, path);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
}
