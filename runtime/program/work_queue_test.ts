import assert from "node:assert/strict";
import type { Device } from "../device/device.ts";
import { Graph } from "../graph/graph.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { planMemory } from "./plan.ts";
import { type Executable, instantiate } from "./executable.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { Pacer } from "../device/pacer.ts";
import { type Run, runSequence } from "./work_queue.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

interface Bench {
  readonly device: Device;
  /** state ← state + step, in one submit. */
  readonly short: Executable;
  /** state ← state + 4 · step, in four submits. */
  readonly long: Executable;
  readonly state: DeviceTensor;
  readonly step: DeviceTensor;
  /** What happened so far; `submit n` is a submit of n command buffers. */
  readonly log: string[];
}

async function withBench(use: (bench: Bench) => Promise<void>): Promise<void> {
  const device = await openTestDevice();
  try {
    const state = new DeviceTensor("state", [4]).allocate(device);
    const step = new DeviceTensor("step", [4]).allocate(device);
    const trace = (name: string, additions: number, submitBudget = device.target.submitBudget) => {
      const graph = new Graph(name, { ...device.target, submitBudget });
      let x = graph.use(state);
      for (let i = 0; i < additions; i++) x = elementwise("x + s", { x, s: graph.use(step) });
      copyTo(x, state);
      return graph;
    };
    const plan = planMemory({
      short: trace("short", 1),
      long: trace("long", 4, { flops: 1, bytes: 1 }),
    });
    const programs = await instantiate(plan, device);
    step.write([1, 1, 1, 1]);
    const [short, long] = [programs.get("short"), programs.get("long")];
    assert.deepEqual([short.submits.length, long.submits.length], [1, 4]);
    const log: string[] = [];
    const submit = device.submit.bind(device);
    device.submit = (commands) => {
      log.push(`submit ${commands.length}`);
      submit(commands);
    };
    await use({ device, short, long, state, step, log });
  } finally {
    device.destroy();
  }
}

function logged({ log }: Bench, name: string, programs: readonly Executable[]): Run {
  return {
    programs,
    before: () => log.push(`before ${name}`),
    finished: () => log.push(`finished ${name}`),
  };
}

Deno.test("runSequence() writes a run's inputs after the run before is finished, and sends short programs along", () =>
  withBench(async (bench) => {
    const { device, short, long, state, step, log } = bench;
    const runs = [
      logged(bench, "a", [long]),
      { ...logged(bench, "b", [short, short]), before: () => step.write([10, 10, 10, 10]) },
    ];
    await runSequence(device, runs);
    assert.deepEqual(log, [
      "before a",
      "submit 1",
      "submit 1",
      "submit 1",
      "submit 1",
      "finished a",
      "submit 2",
      "finished b",
    ]);
    assert.equal((await state.read())[0], 4 * 1 + 2 * 10);
  }));

Deno.test("runSequence() encodes a submit when its turn comes, not a program at once", () =>
  withBench(async ({ device, long, log }) => {
    const encode = long.encode.bind(long);
    long.encode = (index) => {
      log.push(`encode ${index}`);
      return encode(index);
    };
    await runSequence(device, [{ programs: [long] }]);
    const before = (entry: string) =>
      log.slice(0, log.indexOf(entry)).filter((x) => x === "submit 1");
    assert.equal(before("encode 2").length, 1);
    assert.equal(before("encode 3").length, 2);
  }));

Deno.test("runSequence() draws runs ahead of the GPU", () =>
  withBench(async (bench) => {
    const { device, short, log } = bench;
    function* runs(): Generator<Run> {
      for (const name of ["a", "b", "c"]) {
        log.push(`draw ${name}`);
        yield logged(bench, name, [short]);
      }
    }
    await runSequence(device, runs());
    assert.deepEqual(log, [
      "draw a",
      "draw b",
      "before a",
      "submit 1",
      "draw c",
      "finished a",
      "before b",
      "submit 1",
      "finished b",
      "before c",
      "submit 1",
      "finished c",
    ]);
    await runSequence(device, []);
    assert.equal(log.length, 12);
  }));

Deno.test("runSequence() waits once for the runs of a stage that the pacer has room for", () =>
  withBench(async (bench) => {
    const { device, short, long, state } = bench;
    Object.defineProperty(device, "pacer", { value: new Pacer({ now: () => 0 }) });
    const waitsFor = async (runs: Run[]) => {
      const { waits } = device.counters;
      await runSequence(device, runs);
      return device.counters.waits - waits;
    };
    const run = (stage: string, programs = [short]): Run => ({ programs, stage });
    assert.equal(await waitsFor([run("a"), run("a"), run("a"), run("b"), run("b")]), 2);
    assert.equal(await waitsFor([{ programs: [short] }, { programs: [short] }]), 2);
    assert.equal(await waitsFor([run("a", [long]), run("a", [long])]), 8, "each costs a budget");
    assert.equal((await state.read())[0], 5 + 2 + 2 * 4);
  }));

Deno.test("runSequence() reads what a run left before the next one overwrites it", () =>
  withBench(async (bench) => {
    const { device, short, state } = bench;
    const seen: number[] = [];
    const run: Run = {
      programs: [short],
      stage: "a",
      reads: [state],
      finished: ([values]) => seen.push(values![3]!),
    };
    const { waits } = device.counters;
    await runSequence(device, [run, run, { programs: [short], stage: "a" }, run]);
    assert.deepEqual(seen, [1, 2, 4]);
    assert.equal(device.counters.waits - waits, 3, "the read is the wait");
  }));

Deno.test("runSequence() ends with an AbortError between runs, and what was submitted is finished", () =>
  withBench(async (bench) => {
    const { device, short, state, log } = bench;
    const runs = ["a", "b", "c", "d"].map((name) => logged(bench, name, [short]));
    const isCancelled = () => log.includes("finished b");
    await assert.rejects(runSequence(device, runs, { isCancelled }), { name: "AbortError" });
    assert.equal(log.at(-1), "finished b");
    assert.equal((await state.read())[0], 2);
  }));

Deno.test("runSequence() ends with an AbortError within a run of several submits", () =>
  withBench(async (bench) => {
    const { device, long, state, log } = bench;
    const isCancelled = () => log.filter((entry) => entry === "submit 1").length === 2;
    const runs = [logged(bench, "a", [long])];
    await assert.rejects(runSequence(device, runs, { isCancelled }), { name: "AbortError" });
    assert.deepEqual(log, ["before a", "submit 1", "submit 1"]);
    assert.equal((await state.read())[0], 0, "the state is written in the last submit");
  }));

Deno.test("runSequence() does nothing when it is cancelled before, and ends well when there is nothing left", () =>
  withBench(async (bench) => {
    const { device, short, log } = bench;
    const runs = [logged(bench, "a", [short])];
    const cancelled = runSequence(device, runs, { isCancelled: () => true });
    await assert.rejects(cancelled, { name: "AbortError" });
    assert.equal(log.length, 0);
    await runSequence(device, runs, { isCancelled: () => log.includes("finished a") });
    assert.deepEqual(log, ["before a", "submit 1", "finished a"]);
  }));

Deno.test("runSequence() passes on what a callback throws, and sends nothing after it", () =>
  withBench(async (bench) => {
    const { device, short, log } = bench;
    const failure = new Error("the callback's own");
    const fail = () => {
      throw failure;
    };
    const second = logged(bench, "b", [short]);
    const first = { ...logged(bench, "a", [short]), finished: fail };
    await assert.rejects(runSequence(device, [first, second]), failure);
    assert.deepEqual(log, ["before a", "submit 1"]);
    await assert.rejects(runSequence(device, [{ ...first, before: fail }, second]), failure);
    assert.deepEqual(log, ["before a", "submit 1"]);
  }));
