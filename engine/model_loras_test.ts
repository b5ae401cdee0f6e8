import { strict as assert } from "node:assert";
import { join } from "node:path";
import type { Lora } from "../models/lora/types.ts";
import { LoraCache } from "./model_loras.ts";

interface Bench {
  readonly cache: LoraCache;
  /** Files that were read, by name. */
  readonly reads: string[];
  path(name: string): string;
  write(name: string, size?: number): Promise<string>;
}

/** LoRAs whose size is that of their file. */
async function withCache(use: (bench: Bench) => Promise<void>, maxBytes = 100): Promise<void> {
  const folder = await Deno.makeTempDir();
  const reads: string[] = [];
  const cache = new LoraCache({
    maxBytes,
    find: (path) => Promise.resolve(path),
    read: async (path): Promise<Lora> => {
      reads.push(path.slice(folder.length + 1));
      const { byteLength } = await Deno.readFile(path);
      return { dialect: "none", changes: [], unmatchedKeys: [], byteLength };
    },
  });
  const path = (name: string) => join(folder, name);
  const write = async (name: string, size = 40) => {
    await Deno.writeFile(path(name), new Uint8Array(size));
    return path(name);
  };
  try {
    await use({ cache, reads, path, write });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("LoraCache.load() reads a file once, also when it is asked for at the same time", () =>
  withCache(async ({ cache, reads, write }) => {
    const path = await write("a");
    const [first, second] = await Promise.all([cache.load([{ path }]), cache.load([{ path }])]);
    assert.equal(first[0], second[0]);
    assert.deepEqual(await cache.load([{ path }, { path }]), [first[0], first[0]]);
    assert.deepEqual(reads, ["a"]);
    assert.equal(cache.bytes, 40);
  }));

Deno.test("LoraCache.load() reads a file once, whenever it is asked for while it is read", async () => {
  const lora: Lora = { dialect: "none", changes: [], unmatchedKeys: [], byteLength: 1 };
  for (let turns = 0; turns < 40; turns++) {
    let reads = 0;
    const cache = new LoraCache({
      find: (path) => Promise.resolve(path),
      stateOf: () => Promise.resolve("as it was"),
      read: () => Promise.resolve(lora).finally(() => reads++),
    });
    const first = cache.load([{ path: "a" }]);
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    await Promise.all([first, cache.load([{ path: "a" }])]);
    assert.equal(reads, 1, `asked for ${turns} turns later`);
  }
});

Deno.test("LoraCache.load() tells alphas apart, and reads a file again that was replaced", () =>
  withCache(async ({ cache, reads, write, path }) => {
    await write("a");
    const [plain] = await cache.load([{ path: path("a") }]);
    const [other] = await cache.load([{ path: path("a"), alpha: 4 }]);
    assert.notEqual(plain!.key, other!.key);
    await write("a", 41);
    const [replaced] = await cache.load([{ path: path("a") }]);
    assert.notEqual(replaced!.key, plain!.key);
    assert.equal(reads.length, 3);
  }));

Deno.test("LoraCache.load() gives what it has of a file that is gone, and refuses what it never had", () =>
  withCache(async ({ cache, reads, write }) => {
    const path = await write("a");
    const [first] = await cache.load([{ path }]);
    await Deno.remove(path);
    assert.equal((await cache.load([{ path }]))[0], first);
    assert.deepEqual(reads, ["a"]);
    await assert.rejects(cache.load([{ path: `${path}x` }]), { name: "LoraError" });
  }));

Deno.test("LoraCache drops what was used longest ago, and never what is in use", () =>
  withCache(async ({ cache, write }) => {
    const [a, b, c, d] = await Promise.all(["a", "b", "c", "d"].map((name) => write(name)));
    const key = async (path: string) => (await cache.load([{ path }]))[0]!.key;
    const ofA = await key(a!);
    cache.pin([ofA]);
    const ofB = await key(b!);
    const ofC = await key(c!);
    assert.deepEqual([ofA, ofB, ofC].map((each) => cache.has(each)), [true, false, true]);
    await key(a!);
    await key(d!);
    assert.deepEqual([cache.has(ofA), cache.has(ofC), cache.bytes], [true, false, 80]);
    cache.pin([]);
    await key(b!);
    await key(c!);
    assert.equal(cache.has(ofA), false);
  }));

Deno.test("LoraCache keeps what one call asks for together, beyond its bound", () =>
  withCache(async ({ cache, write }) => {
    const paths = await Promise.all(["a", "b", "c"].map((name) => write(name)));
    const loaded = await cache.load(paths.map((path) => ({ path })));
    assert.ok(loaded.every(({ key }) => cache.has(key)));
    await cache.load([{ path: paths[2]! }]);
    assert.equal(cache.bytes, 80);
  }));

Deno.test("LoraCache.load() tries again after a failure", () =>
  withCache(async ({ cache, path, write, reads }) => {
    await assert.rejects(cache.load([{ path: path("a") }]));
    await write("a");
    await cache.load([{ path: path("a") }]);
    assert.deepEqual(reads, ["a"]);
  }));
