import assert from "node:assert/strict";
import { Graph, type Tensor } from "../graph/graph.ts";
import { copyTo } from "../ops/copy/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { mergePlans, planMemory } from "./plan.ts";
import { instantiate } from "./executable.ts";
import { DeviceTensor } from "../device/device_tensor.ts";
import { runSequence } from "./work_queue.ts";
import { COPY_KERNEL } from "../ops/copy/mod.ts";
import { BASELINE_TARGET, type Target } from "../target.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

/** A chain of additions in which every result is read by some later ones. */
function randomGraph(
  seed: number,
  target: Target,
): { graph: Graph; input: DeviceTensor; output: DeviceTensor } {
  let state = seed;
  const random = (bound: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * bound);
  };
  const graph = new Graph("random", target);
  const input = new DeviceTensor("input", [64]);
  const output = new DeviceTensor("output", [64]);
  const tensors: Tensor[] = [graph.use(input)];
  for (let i = 0; i < 30; i++) {
    const [a, b] = [tensors[random(tensors.length)]!, tensors[random(tensors.length)]!];
    tensors.push(elementwise("0.5 * a + 0.5 * b + 0.125", { a, b }));
  }
  copyTo(tensors.at(-1)!, output);
  return { graph, input, output };
}

Deno.test("planMemory() never lets two tensors share a slot while both live", () => {
  for (let seed = 0; seed < 50; seed++) {
    const { graph } = randomGraph(seed, BASELINE_TARGET);
    const { slots } = planMemory({ main: graph }).programs["main"]!;
    const lives = new Map<number, { first: number; last: number }>();
    graph.dispatches.forEach(({ tensors }, time) => {
      for (const { memory } of tensors) {
        if (!("id" in memory)) continue;
        const life = lives.get(memory.id) ?? { first: time, last: time };
        lives.set(memory.id, { ...life, last: time });
      }
    });
    for (const [a, lifeA] of lives) {
      for (const [b, lifeB] of lives) {
        if (a >= b || slots.get(a) !== slots.get(b)) continue;
        assert.ok(
          lifeA.last < lifeB.first || lifeB.last < lifeA.first,
          `seed ${seed}: ${a} and ${b} overlap`,
        );
      }
    }
  }
});

Deno.test("planMemory() shares the slots of programs that do not run together", () => {
  const { graph } = randomGraph(1, BASELINE_TARGET);
  const { graph: other } = randomGraph(2, BASELINE_TARGET);
  const alone = planMemory({ graph });
  const both = planMemory({ graph, other });
  const slots = (plan: typeof alone) => plan.slotBytes.reduce((sum, size) => sum + size, 0);
  assert.ok(slots(both) < slots(alone) + slots(planMemory({ other })));
  assert.ok(slots(both) >= slots(alone));
});

Deno.test("mergePlans() gives what planMemory() gives for all programs at once", () => {
  const graphs = Object.fromEntries(
    [1, 2, 3].map((seed) => [`graph ${seed}`, randomGraph(seed, BASELINE_TARGET).graph]),
  );
  const apart = Object.entries(graphs).map(([name, graph]) => planMemory({ [name]: graph }));
  assert.deepEqual(mergePlans(apart), planMemory(graphs));
});

Deno.test("instantiate() allocates what the plan says, to the byte, and gives all of it back", async () => {
  const device = await openTestDevice();
  const { graph, input, output } = randomGraph(3, device.target);
  const plan = planMemory({ main: graph });
  for (const tensor of plan.tensors) tensor.allocate(device);
  const programs = await instantiate(plan, device);
  assert.equal(device.allocatedBytes, plan.peakBytes);
  programs.destroy();
  input.destroy();
  output.destroy();
  assert.equal(device.allocatedBytes, 0);
  device.destroy();
});

Deno.test("instantiate() leaves nothing allocated when the budget is too small", async () => {
  const device = await openTestDevice({ maxBytes: 1500 });
  const { graph, input, output } = randomGraph(4, device.target);
  input.allocate(device);
  output.allocate(device);
  const before = device.allocatedBytes;
  await assert.rejects(instantiate(planMemory({ main: graph }), device), /Cannot allocate/);
  assert.equal(device.allocatedBytes, before);
  device.destroy();
});

Deno.test("planMemory() cuts grids and submits without changing the result", async () => {
  const device = await openTestDevice();
  const whole = await runAdd(device.target);
  const cut = await runAdd({
    ...device.target,
    limits: { ...device.target.limits, maxWorkgroupsPerDimension: 3 },
    submitBudget: { flops: 100, bytes: 1e4 },
  });
  assert.equal(whole.submits, 1);
  assert.ok(cut.submits > 3);
  assert.deepEqual(cut.values, whole.values);

  async function runAdd(target: Target): Promise<{ submits: number; values: Float64Array }> {
    const graph = new Graph("add", target);
    const input = new DeviceTensor("input", [5000]).allocate(device);
    const output = new DeviceTensor("output", [5000]).allocate(device);
    const x = graph.use(input);
    copyTo(elementwise("a + 1.0", { a: elementwise("a * 2.0", { a: x }) }), output);
    const programs = await instantiate(planMemory({ main: graph }), device);
    input.write(Float32Array.from({ length: 5000 }, (_, i) => i));
    const program = programs.get("main");
    await runSequence(device, [{ programs: [program] }]);
    const values = await output.read();
    programs.destroy();
    return { submits: program.submits.length, values };
  }
  device.destroy();
});

Deno.test("planMemory() keeps every part of a long dispatch within the budget of a submit", () => {
  const flops = 1000;
  const target = { ...BASELINE_TARGET, submitBudget: { flops, bytes: Infinity } };
  const grids = [[1000, 1, 1], [7, 13, 3], [3, 2, 500], [97, 89, 1]] as const;
  for (const workgroups of grids) {
    for (const perGroup of [1, 30, 999]) {
      const graph = new Graph("long", target);
      const [x, y] = [new DeviceTensor("x", [4]), new DeviceTensor("y", [4])];
      const count = workgroups[0] * workgroups[1] * workgroups[2];
      graph.dispatch({
        kernel: COPY_KERNEL,
        buffers: { x: graph.use(x), y: graph.use(y) },
        params: { words: 1 },
        workgroups,
        flops: count * perGroup,
      });
      const { submits } = planMemory({ main: graph }).programs["main"]!;
      const parts = submits.flat().map(({ workgroups: [a, b, c] }) => a * b * c);
      assert.equal(parts.reduce((sum, part) => sum + part), count, "nothing is lost or done twice");
      const largest = Math.max(...parts) * perGroup;
      assert.ok(largest <= flops, `${workgroups} of ${perGroup}: a part has ${largest}`);
    }
  }
});

Deno.test("instantiate() makes one bind group and one buffer of parameters for a dispatch of 70,000 parts", async () => {
  const device = await openTestDevice();
  const graph = new Graph("long", {
    ...device.target,
    submitBudget: { flops: 1, bytes: Infinity },
  });
  const [x, y] = ["x", "y"].map((name) => new DeviceTensor(name, [4]).allocate(device));
  const { buffers, bindGroups } = device.counters;
  graph.dispatch({
    kernel: COPY_KERNEL,
    buffers: { x: graph.use(x!), y: graph.use(y!) },
    params: { words: 1 },
    ...{ workgroups: [700, 100, 1], flops: 70_000 },
  });
  const programs = await instantiate(planMemory({ main: graph }), device);
  assert.equal(programs.get("main").submits.flat().length, 70_000);
  const after = device.counters;
  assert.deepEqual([after.buffers - buffers, after.bindGroups - bindGroups], [1, 1]);
  programs.destroy();
  device.destroy();
});

Deno.test("instantiate() stops between kernels when cancelled, and leaves nothing allocated", async () => {
  const device = await openTestDevice();
  const { graph, input, output } = randomGraph(5, device.target);
  input.allocate(device);
  output.allocate(device);
  const before = device.allocatedBytes;
  let asked = 0;
  const control = { isCancelled: () => ++asked > 5 };
  const plan = planMemory({ main: graph });
  await assert.rejects(instantiate(plan, device, control), { name: "AbortError" });
  assert.equal(asked, 6);
  assert.equal(device.allocatedBytes, before);
  (await instantiate(plan, device)).destroy();
  device.destroy();
});

Deno.test("ExecutableSet.destroy() gives constants back too, so that the plan can be instantiated again", async () => {
  const device = await openTestDevice();
  const graph = new Graph("constant", device.target);
  const output = new DeviceTensor("output", [4]).allocate(device);
  copyTo(graph.constant("table", [4], "f32", [1, 2, 3, 4]), output);
  const plan = planMemory({ main: graph });
  for (let round = 0; round < 2; round++) {
    const programs = await instantiate(plan, device);
    output.clear();
    await runSequence(device, [{ programs: [programs.get("main")] }]);
    assert.deepEqual(await output.read(), Float64Array.of(1, 2, 3, 4));
    programs.destroy();
    programs.destroy();
    assert.equal(device.allocatedBytes, output.byteLength);
  }
  device.destroy();
});
