import { strict as assert } from "node:assert";
import { join } from "node:path";
import { FakeHub } from "../../tests/fakes/hub.ts";
import { LoraFiles } from "./lora_files.ts";

async function withHub(
  use: (files: LoraFiles, hub: FakeHub, lines: string[]) => Promise<void>,
  isOffline = false,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  await using hub = new FakeHub({ "org/one": { "a.safetensors": "one" }, "org/none": { a: "" } });
  const lines: string[] = [];
  const files = new LoraFiles({
    folders: [folder],
    named: {},
    log: (line) => lines.push(line),
    hub: { endpoint: hub.endpoint, isOffline, cacheFolder: join(folder, "hub") },
  });
  try {
    await use(files, hub, lines);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("LoraFiles.find() fetches a hub id once, and says so in the log", () =>
  withHub(async (files, hub, lines) => {
    for (const id of ["org/one", "org/one", "org/one:a.safetensors"]) {
      assert.equal(await Deno.readTextFile(await files.find(id)), "one");
    }
    assert.deepEqual(lines, ["Fetching adapter org/one from the hub"]);
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
    true,
  );
});

Deno.test("LoraFiles.find() stops fetching when its client has gone", () =>
  withHub(async (files, hub) => {
    hub.behaviour.failures = [503, 503];
    await assert.rejects(files.find("org/one", AbortSignal.abort()), { name: "AbortError" });
  }));

Deno.test("LoraFiles.find() leaves files where their settings are, in caches that hold links", async () => {
  const cache = await Deno.realPath(await Deno.makeTempDir());
  const snapshot = join(cache, "models--org--one", "snapshots", "1");
  try {
    await Deno.mkdir(snapshot, { recursive: true });
    await Deno.writeTextFile(join(cache, "blob"), "one");
    const file = join(snapshot, "adapter_model.safetensors");
    await Deno.symlink(join(cache, "blob"), file);
    const files = new LoraFiles({ folders: [snapshot, cache], named: {}, log: () => {} });
    const paths = [file, snapshot, "adapter_model.safetensors", snapshot.slice(cache.length + 1)];
    for (const path of paths) assert.equal(await files.find(path), file, path);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
});
