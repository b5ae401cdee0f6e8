import assert from "node:assert/strict";
import { withFolder } from "../../tests/support/safetensors.ts";
import { join } from "node:path";
import fc from "fast-check";
import type { TuningKey } from "./kernel_set.ts";
import type { Tuning } from "./tune.ts";
import {
  parseTuning,
  readTuning,
  tuningPath,
  type TuningRecord,
  writeTuning,
} from "./tuning_file.ts";

const KEY: TuningKey = {
  adapter: "Test GPU 3000 (rev 2)",
  driver: "1.0",
  vendor: "4318",
  backend: "linux vulkan",
  runtime: "deno 2.9.6",
  abilities: "0123456789abcdef",
  kernels: "fedcba9876543210",
};

const TUNING: Tuning = {
  choices: { linear: { "rows<=1": [{ variant: "rows", microseconds: 1.5 }], "rows<=4": [] } },
  excluded: ['linear rows<=1 as "tiles": its result differs'],
  classes: { measured: 1, known: 2 },
  seconds: 0.5,
};

/** What is kept for a key, by a program that cannot tell whether it is the one that kept it. */
function read(folder: string, { kernels, ...adapter }: TuningKey): Promise<TuningRecord> {
  return readTuning(
    folder,
    adapter,
    () => Promise.resolve(kernels),
    () => Promise.resolve(undefined),
  );
}

Deno.test("readTuning() gives what writeTuning() kept, which leaves no other file", () =>
  withFolder({}, async (parent) => {
    const folder = join(parent, "new", "folder");
    await writeTuning(folder, KEY, undefined, 1);
    const path = await writeTuning(folder, KEY, TUNING);
    const found = await read(folder, KEY) as Extract<TuningRecord, { state: "tuned" }>;
    assert.deepEqual([found.state, found.tuning, found.path], ["tuned", TUNING, path]);
    assert.ok(Math.abs(Date.now() - found.date.getTime()) < 60_000);
    assert.equal([...Deno.readDirSync(folder)].length, 1);
    assert.match(path, /test-gpu-3000-rev-2-[0-9a-f]{16}\.json$/);
  }));

Deno.test("readTuning() finds nothing for other kernels or another driver in the same file, and nothing in none", () =>
  withFolder({}, async (folder) => {
    assert.equal((await read(folder, KEY)).state, "none");
    assert.equal((await read(join(folder, "absent"), KEY)).state, "none");
    await writeTuning(folder, KEY, TUNING);
    for (
      const change of [{ kernels: "0" }, { abilities: "0" }, { driver: "1.1" }, {
        runtime: "deno 2.9.7",
      }]
    ) {
      const other = { ...KEY, ...change };
      assert.equal(await tuningPath(folder, other), await tuningPath(folder, KEY));
      assert.equal((await read(folder, other)).state, "none");
    }
  }));

Deno.test("readTuning() reads the kernels only where another program wrote the file, once", () =>
  withFolder({}, async (folder) => {
    const { kernels, ...adapter } = KEY;
    await writeTuning(folder, KEY, TUNING);
    let asked = 0;
    const readBy = async (stamp?: string) => {
      const count = () => Promise.resolve((asked++, kernels));
      const found = await readTuning(
        folder,
        adapter,
        count,
        stamp === undefined ? undefined : () => Promise.resolve(stamp),
      );
      return [found.state, asked];
    };
    assert.deepEqual(await readBy(), ["tuned", 0]);
    assert.deepEqual(await readBy("another"), ["tuned", 1]);
    assert.deepEqual(await readBy("another"), ["tuned", 1]);
    assert.deepEqual(await readBy(), ["tuned", 2]);
    const changed = () => Promise.resolve("0");
    const third = () => Promise.resolve("third");
    assert.equal((await readTuning(folder, adapter, changed, third)).state, "none");
    const later = await readTuning(folder, { ...adapter, driver: "1.1" }, changed);
    assert.deepEqual([later.state, asked], ["none", 2]);
  }));

Deno.test("tuningPath() tells adapters apart, and stays in the folder whatever they are called", async () => {
  const name = async (change: Partial<TuningKey>) =>
    await tuningPath("folder", { ...KEY, ...change });
  const changes = [{}, { adapter: "x" }, { adapter: "Test GPU 3000 rev 2" }, { backend: "dawn" }];
  assert.equal(new Set(await Promise.all(changes.map(name))).size, changes.length);
  for (const adapter of ["../../etc/passwd", "", "\0", "名前", "a".repeat(1000)]) {
    assert.match(await name({ adapter }), /^folder[/\\][a-z0-9-]{1,80}\.json$/);
  }
});

Deno.test("readTuning() tells of runs that began and never ended", () =>
  withFolder({}, async (folder) => {
    const path = await writeTuning(folder, KEY, undefined, 2);
    assert.deepEqual(await read(folder, KEY), { state: "unfinished", path, attempts: 2 });
    await writeTuning(folder, KEY, TUNING, 1);
    const { state, tuning, attempts } = await read(folder, KEY) as Extract<
      TuningRecord,
      { state: "tuned" }
    >;
    assert.deepEqual([state, tuning, attempts], ["tuned", TUNING, 1], "what it measured stays");
  }));

Deno.test("readTuning() never throws for what lies in the file's place", () =>
  withFolder({}, async (folder) => {
    const path = await writeTuning(folder, KEY, TUNING);
    const good = await Deno.readTextFile(path);
    const cut = good.slice(0, good.length / 2);
    for (const text of ["", "null", "[]", "{", cut, "\0\0\0", "9".repeat((1 << 20) + 1)]) {
      await Deno.writeTextFile(path, text);
      assert.equal((await read(folder, KEY)).state, "unreadable", text.slice(0, 20));
    }
    await writeTuning(folder, KEY, TUNING);
    assert.equal((await read(folder, KEY)).state, "tuned");
    await Deno.remove(path);
    await Deno.mkdir(path);
    assert.equal((await read(folder, KEY)).state, "unreadable");
    await assert.rejects(writeTuning(folder, KEY, TUNING), /Cannot keep what was measured in/);
    assert.equal([...Deno.readDirSync(folder)].length, 1, "no temporary file stays");
  }));

Deno.test("parseTuning() refuses values that the runtime could not work with", () => {
  const read = (tuning: unknown) =>
    parseTuning(
      JSON.stringify({ format: 2, key: KEY, date: "2026-01-02", attempts: 0, tuning }),
      KEY,
      "path",
    );
  assert.equal(read(TUNING).state, "tuned");
  const choices = (timing: unknown) => ({ ...TUNING, choices: { linear: { a: [timing] } } });
  for (
    const wrong of [
      null,
      [],
      {},
      { ...TUNING, choices: [] },
      { ...TUNING, choices: { linear: [] } },
      { ...TUNING, choices: { linear: { a: {} } } },
      choices(null),
      choices({ variant: 1, microseconds: 1 }),
      choices({ variant: "rows", microseconds: -1 }),
      choices({ variant: "rows", microseconds: null }),
      { ...TUNING, excluded: [1] },
      { ...TUNING, seconds: "1" },
    ]
  ) assert.throws(() => read(wrong), TypeError, JSON.stringify(wrong));
});

Deno.test("parseTuning() throws nothing but TypeError and SyntaxError for any JSON under the key", () => {
  fc.assert(fc.property(fc.jsonValue(), fc.jsonValue(), (tuning, date) => {
    const text = JSON.stringify({ format: 2, key: KEY, date, tuning, attempts: tuning });
    try {
      parseTuning(text, KEY, "path");
    } catch (error) {
      assert.ok(error instanceof TypeError || error instanceof SyntaxError, String(error));
    }
  }));
});
