/** Tuning on the adapter at hand; what is the fastest there is not asserted. */
import assert from "node:assert/strict";
import { Device } from "../device/device.ts";
import { Graph } from "../graph/graph.ts";
import type { DeviceOptions } from "../open_device.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { layerNorm } from "../ops/norm/layer_norm.ts";
import { softmax } from "../ops/softmax/mod.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { adapterKey, kernelSetVersion } from "./kernel_set.ts";
import { raceTarget, sizeRace, traceRace } from "./race.ts";
import type { Race } from "../ops/op.ts";
import { RACES } from "../ops/registry.ts";
import { listChoices, tune, type Tuning } from "./tune.ts";
import type { Stopwatch } from "../program/stopwatch.ts";
import { BASELINE_TARGET } from "../target.ts";
import { matrixTarget } from "../../tests/support/matrix_target.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

const SOFTMAX: Race = {
  op: "softmax",
  inputs: [{ shape: [300, 64], dtype: "f32", magnitude: 1 }],
  build: (x) => softmax(x!),
};

const LAYER_NORM: Race = {
  op: "layerNorm",
  inputs: [{ shape: [8, 16], dtype: "f32", magnitude: 1 }],
  build: (x) => layerNorm(x!, { eps: 1e-6 }),
};

async function withDevice(
  use: (device: Device) => Promise<void>,
  options: DeviceOptions = {},
): Promise<void> {
  const device = await openTestDevice(options);
  try {
    await use(device);
  } finally {
    device.destroy();
  }
}

Deno.test("tune() measures every variant of two classes, and frees what it took", () =>
  withDevice(async (device) => {
    const lines: string[] = [];
    const before = device.target;
    const tuning = await tune(device, {
      races: [SOFTMAX, LAYER_NORM],
      onProgress: (fraction, line) => lines.push(`${fraction} ${line}`),
    });
    assert.deepEqual(tuning.classes, { measured: 2, known: 2 });
    const softmaxTimings = tuning.choices["softmax"]!["rows>256 columns<=512"]!;
    const names = softmaxTimings.map(({ variant }) => variant).sort();
    assert.deepEqual(names, ["group", "row"]);
    assert.ok(softmaxTimings.every(({ microseconds }) => microseconds > 0));
    assert.deepEqual(tuning.excluded, []);
    assert.match(lines[0]!, /^0\.5 softmax rows>256 columns<=512: (row|group) \(measured: /);
    assert.match(lines[1]!, /^1 layerNorm rows<=256 columns<=512: (cpu|gpu) /);
    assert.equal(device.allocatedBytes, 0);
    assert.equal(device.target, before, "the device is not touched");

    device.applyTuning(tuning);
    const { choice } = traceRace(SOFTMAX, device.target);
    assert.deepEqual([choice.reason, choice.variant], ["measured", softmaxTimings[0]!.variant]);
    const listed = listChoices(device.target).find(({ problemClass, op }) =>
      op === "softmax" && problemClass === "rows>256 columns<=512"
    );
    assert.match(listed!.why, /^measured/);
  }));

Deno.test("tune() leaves out what its budget and the memory do not hold", async () => {
  await withDevice(async (device) => {
    const tuning = await tune(device, { races: [SOFTMAX], budgetMs: 0 });
    assert.deepEqual([tuning.choices, tuning.classes], [{}, { measured: 0, known: 1 }]);
  });
  await withDevice(async (device) => {
    const tuning = await tune(device, { races: [SOFTMAX, LAYER_NORM] });
    assert.deepEqual(tuning.choices["softmax"], { "rows>256 columns<=512": [] }, "not again");
    assert.ok(tuning.choices["layerNorm"]!["rows<=256 columns<=512"]!.length > 0);
    assert.deepEqual(tuning.classes, { measured: 2, known: 2 });
    assert.equal(device.allocatedBytes, 0);
  }, { maxBytes: 50_000 });
});

Deno.test("tune() goes on where an earlier run ended, and measures nothing twice", () =>
  withDevice(async (device) => {
    const kept: Tuning[] = [];
    const first = await tune(device, { races: [SOFTMAX] });
    const known: Tuning = { ...first, excluded: ["x"], classes: { measured: 1, known: 2 } };
    const lines: string[] = [];
    const second = await tune(device, {
      races: [SOFTMAX, LAYER_NORM],
      known,
      onProgress: (fraction, line) => lines.push(`${fraction} ${line}`),
      onResult: (tuning) => Promise.resolve(void kept.push(tuning)),
    });
    assert.equal(lines.length, 1);
    assert.match(lines[0]!, /^1 layerNorm /);
    assert.deepEqual(second.choices["softmax"], first.choices["softmax"]);
    assert.deepEqual([second.classes, second.excluded], [{ measured: 2, known: 2 }, ["x"]]);
    assert.ok(second.seconds > first.seconds);
    assert.deepEqual(kept.map(({ choices }) => choices), [second.choices]);
  }));

Deno.test("tune() does not begin anew with a race that no run has time for", () =>
  withDevice(async (device) => {
    const slow: Race = {
      ...SOFTMAX,
      build: (x) => {
        const end = performance.now() + 400;
        while (performance.now() < end) { /* as a driver that compiles for long */ }
        return softmax(x!);
      },
    };
    const first = await tune(device, { races: [slow, LAYER_NORM], budgetMs: 1500 });
    assert.deepEqual(first.choices, { softmax: { "rows>256 columns<=512": [] } });
    assert.deepEqual(first.classes, { measured: 1, known: 2 });
    const second = await tune(device, { races: [slow, LAYER_NORM], known: first });
    assert.deepEqual(second.classes, { measured: 2, known: 2 });
  }));

Deno.test("sizeRace() takes a larger problem of the class where the race's own is too short", () =>
  withDevice(async (software) => {
    const stopwatch = { time: () => Promise.resolve(0.1) } as unknown as Stopwatch;
    const { gpuDevice, target, adapter } = software;
    const device = new Device(gpuDevice, target, { ...adapter, isSoftware: false }, Infinity);
    const clock = { deadline: Infinity, stopwatch };
    const grow = (factor: number) => [{ ...SOFTMAX.inputs[0]!, shape: [300 * factor, 64] }];
    const sized = await sizeRace(device, { ...SOFTMAX, grow }, clock);
    assert.deepEqual(sized.inputs[0]!.shape, [300 * 15, 64]);
    const wider = (factor: number) => [{ ...SOFTMAX.inputs[0]!, shape: [300, 64 * factor] }];
    const bounded = await sizeRace(device, { ...SOFTMAX, grow: wider }, clock);
    assert.deepEqual(bounded.inputs[0]!.shape, [300, 64 * 7.5], "at most 512 columns");
    assert.equal(await sizeRace(device, SOFTMAX, clock), SOFTMAX);
    assert.equal(device.allocatedBytes, 0);
  }));

Deno.test("RACES grow within their class, to about as much work as was asked for", () => {
  for (const race of RACES) {
    const own = traceRace(race, BASELINE_TARGET);
    const work = ({ graph }: typeof own) =>
      graph.dispatches.reduce((sum, { flops, bytes }) => sum + flops + bytes, 0);
    for (const factor of [2, 16]) {
      if (!race.grow) continue;
      const grown = traceRace({ ...race, inputs: race.grow(factor) }, BASELINE_TARGET);
      assert.equal(grown.choice.problemClass, own.choice.problemClass);
      assert.ok(work(grown) <= 2.5 * factor * work(own), `${race.op} ${own.choice.problemClass}`);
    }
  }
});

Deno.test("races of a GPU have all variants of every quality, and none for software adapters", () => {
  const gpu = raceTarget({ ...matrixTarget(), operands: "f32" });
  const software = new Set(["broadcast", "broadcast8", "registers", "winograd", "cpu", "row"]);
  const all = new Set<string>();
  for (const race of RACES) {
    const { op, problemClass, candidates } = traceRace(race, gpu).choice;
    for (const variant of candidates) all.add(`${op} ${variant}`);
    assert.deepEqual(candidates.filter((name) => software.has(name)), [], `${op} ${problemClass}`);
  }
  for (const name of ["linear matrix128", "linear int8", "attention matrix", "conv2d matrix64"]) {
    assert.ok(all.has(name), name);
  }
});

Deno.test("a tuned GPU takes the fastest variant that the quality allows, from one table", () => {
  const names = ["shared64", "matrix128", "int8"];
  const timings = names.map((variant, i) => ({ variant, microseconds: 300 - 100 * i }));
  const choices = { linear: { "rows<=2048 columns>512 8-bit": timings } };
  const target = { ...matrixTarget(), choices };
  const race = RACES.find((race) =>
    traceRace(race, target).choice.problemClass === "rows<=2048 columns>512 8-bit"
  )!;
  const chosen = (["f32", "f16", "int8"] as const).map((operands) =>
    traceRace(race, { ...target, operands }).choice.variant
  );
  assert.deepEqual(chosen, names);
});

Deno.test("tune() excludes variants that compute something else or do not run, by name", () =>
  withDevice(async (device) => {
    const wrong: Race = {
      ...SOFTMAX,
      build: (x) => {
        const y = softmax(x!);
        return x!.graph.target.forcedVariants["softmax"] === "group"
          ? elementwise("a + 1", { a: y })
          : y;
      },
    };
    const failing: Race = {
      ...LAYER_NORM,
      build: (x) => {
        if (x!.graph.target.forcedVariants["layerNorm"] === "gpu") throw new Error("no such thing");
        return LAYER_NORM.build(x!);
      },
    };
    const { choices, excluded } = await tune(device, { races: [wrong, failing] });
    assert.match(excluded[0]!, /^softmax .* as "(group|row)": its result differs/);
    assert.match(excluded[1]!, /^layerNorm .* as "gpu": no such thing/);
    assert.equal(choices["softmax"]!["rows>256 columns<=512"]!.length, 1);
    assert.equal(choices["layerNorm"]!["rows<=256 columns<=512"]![0]!.variant, "cpu");
    assert.equal(device.allocatedBytes, 0);
  }));

Deno.test("RACES has every class once, each on the op that it names, with a choice to make", () =>
  withDevice((device) => {
    const seen = new Set<string>();
    for (const race of RACES) {
      const { op, problemClass, candidates } = traceRace(race, device.target).choice;
      const name = `${op} ${problemClass}`;
      assert.equal(op, race.op);
      assert.ok(candidates.length > 1, `${name} has one variant`);
      assert.ok(!seen.has(name), `${name} is raced twice`);
      seen.add(name);
    }
    return Promise.resolve();
  }));

Deno.test("adapterKey() changes with the driver, where WebGPU tells it", () =>
  withDevice(async ({ adapter, target }) => {
    const keyOf = (driver: string) =>
      adapterKey({ adapter: { ...adapter, driver }, target }, "backend");
    assert.deepEqual(await keyOf("1.0"), await keyOf("1.0"));
    assert.notDeepEqual(await keyOf("1.0"), await keyOf("1.1"));
  }));

Deno.test("kernelSetVersion() changes with the kernels, and only with them", () =>
  withDevice(async ({ target }) => {
    const version = await kernelSetVersion(target, [SOFTMAX]);
    assert.match(version, /^[0-9a-f]{16}$/);
    assert.equal(await kernelSetVersion({ ...target, choices: {} }, [SOFTMAX]), version);
    assert.notEqual(await kernelSetVersion(target, [LAYER_NORM]), version);
    const scaled: Race = { ...SOFTMAX, inputs: [{ ...SOFTMAX.inputs[0]!, dtype: "f16" }] };
    assert.notEqual(await kernelSetVersion(target, [scaled]), version);
  }));

Deno.test("Device.applyTuning() counts for graphs that are traced afterwards", () =>
  withDevice((device) => {
    const trace = () => {
      const graph = new Graph("test", device.target);
      softmax(graph.use(new DeviceTensor("x", [300, 64])));
      return graph.dispatches[0]!.kernel.name;
    };
    const names = ["row", "group"].map((variant) => {
      const timings = { "rows>256 columns<=512": [{ variant, microseconds: 1 }] };
      device.applyTuning({ choices: { softmax: timings } });
      return trace();
    });
    assert.equal(new Set(names).size, 2, names.join());
    return Promise.resolve();
  }));
