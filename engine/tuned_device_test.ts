/** Opening devices with and without results of a tuning run, on the adapter at hand taken for a GPU. */
import assert from "node:assert/strict";
import { withFolder } from "../tests/support/safetensors.ts";
import { join } from "node:path";
import { type Device, type DeviceOptions, openDevice, type TuningRecord } from "../runtime/mod.ts";
import { hasDawn, openTunedDevice, runTuning, tuningRecordOf } from "./tuned_device.ts";

const GPU: DeviceOptions = { schedule: "gpu" };
const BUDGET_MS = 600;

interface Opened {
  readonly record: TuningRecord;
  readonly notes: readonly string[];
  readonly choices: Device["target"]["choices"];
}

async function open(
  folder: string,
  mode: "cached" | "auto",
  settings = GPU,
): Promise<Opened> {
  const notes: string[] = [];
  const events = { note: (line: string) => notes.push(line), tuning: () => {} };
  const tuning = { folder, mode, budgetMs: BUDGET_MS };
  const device = await openTunedDevice(settings, tuning, events);
  try {
    const record = await tuningRecordOf(device, folder);
    return { record, notes, choices: device.target.choices };
  } finally {
    device.destroy();
  }
}

Deno.test("openTunedDevice() tunes a GPU, says so, goes on at the next start, and finds the result from then on", () =>
  withFolder({}, async (folder) => {
    const first = await open(folder, "auto");
    assert.match(
      first.notes[0]!,
      /^Choosing kernels for .+: up to 0\.6 s, kept in .+\.json$/,
    );
    assert.match(
      first.notes[1]!,
      /^Measured \d+ of \d+ classes of problems in \d+\.\d s; the next start goes on$/,
    );
    const { state, path } = first.record;
    assert.equal(state, "tuned");
    const cached = await open(folder, "cached");
    assert.deepEqual([cached.notes, cached.choices], [[], first.choices]);

    const second = await open(folder, "auto");
    assert.match(second.notes[0]!, /: \d+ of \d+ classes are measured, up to 0\.6 s, /);
    for (const [op, classes] of Object.entries(first.choices)) {
      for (const [name, timings] of Object.entries(classes)) {
        assert.deepEqual(second.choices[op]![name], timings, "not measured again");
      }
    }

    const file = JSON.parse(await Deno.readTextFile(path));
    file.tuning.classes.measured = file.tuning.classes.known;
    await Deno.writeTextFile(path, JSON.stringify(file));
    const last = await open(folder, "auto");
    assert.deepEqual([last.notes, last.choices], [[], second.choices]);
  }));

Deno.test("openTunedDevice() races the backends once, and tunes and opens the one that won", () =>
  withFolder({}, async (folder) => {
    let adapters = 0;
    const gpu = {
      requestAdapter(options?: GPURequestAdapterOptions) {
        adapters++;
        return navigator.gpu.requestAdapter(options);
      },
    } as GPU;
    (await openDevice({ gpu })).destroy();
    const perOpening = adapters;
    adapters = 0;
    const settings: DeviceOptions = { ...GPU, gpu, backend: "auto" };
    const events = { note: () => {}, tuning: () => {} };
    (await openTunedDevice(settings, { folder, mode: "auto", budgetMs: 1 }, events)).destroy();
    // Where Dawn is not installed, there is nothing to race.
    assert.equal(adapters / perOpening, (hasDawn() ? 2 : 1) + 2);
  }));

Deno.test("openTunedDevice() begins no run for a software adapter, nor where only the cache is wanted", () =>
  withFolder({}, async (folder) => {
    for (
      const opened of [
        await open(folder, "auto", { schedule: "cpu" }),
        await open(folder, "cached"),
      ]
    ) {
      assert.deepEqual([opened.notes, opened.choices], [[], {}]);
      assert.equal(opened.record.state, "none");
    }
  }));

Deno.test("openTunedDevice() tells of a damaged file, and replaces it where it may", () =>
  withFolder({}, async (folder) => {
    const { record: { path } } = await open(folder, "cached");
    await Deno.writeTextFile(path, "{");
    const cached = await open(folder, "cached");
    assert.match(cached.notes[0]!, /^Cannot use what was measured in .+\.json: /);
    assert.deepEqual(cached.choices, {});
    assert.equal((await open(folder, "auto")).record.state, "tuned");
  }));

Deno.test("openTunedDevice() begins no third run after two that did not end, until one is asked for", () =>
  withFolder({}, async (folder) => {
    const { record: { path } } = await open(folder, "auto");
    const { key, format } = JSON.parse(await Deno.readTextFile(path));
    await Deno.writeTextFile(path, JSON.stringify({ format, key, attempts: 2 }));
    const { notes, choices } = await open(folder, "auto");
    assert.match(notes[0]!, /2 tuning runs did not end; "denoise tune" tries again/);
    assert.deepEqual(choices, {});
    const events = { note: () => {}, tuning: () => {} };
    assert.equal((await runTuning(GPU, { folder, budgetMs: 1 }, events)).path, path);
    assert.match((await open(folder, "auto")).notes[0]!, /^Choosing kernels for /);
  }));

Deno.test("runTuning() goes on with what is left, and begins anew once all is measured", () =>
  withFolder({}, async (folder) => {
    const events = { note: () => {}, tuning: () => {} };
    const run = async (budgetMs: number) => {
      const { tuning } = await runTuning(GPU, { folder, budgetMs }, events);
      return tuning.classes;
    };
    const first = await run(BUDGET_MS);
    const second = await run(BUDGET_MS);
    assert.ok(second.measured > first.measured && second.measured < second.known);
    const { record: { path } } = await open(folder, "cached");
    const file = JSON.parse(await Deno.readTextFile(path));
    file.tuning.classes.measured = file.tuning.classes.known;
    await Deno.writeTextFile(path, JSON.stringify(file));
    assert.equal((await run(1)).measured, 0);
  }));

Deno.test("openTunedDevice() opens, tuned, where nothing can be kept", () =>
  withFolder({}, async (parent) => {
    const folder = join(parent, "file");
    await Deno.writeTextFile(folder, "in the way");
    const { notes, choices } = await open(folder, "auto");
    assert.ok(
      notes.some((line) => line.startsWith("Cannot keep what was measured in ")),
      notes.join("\n"),
    );
    assert.notDeepEqual(choices, undefined);
    assert.match(notes.at(-1)!, /^Measured /);
  }));
