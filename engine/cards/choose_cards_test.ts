import { strict as assert } from "node:assert";
import { chooseCards, groupCards, usableAdapters } from "./choose_cards.ts";
import type { AdapterKind, VulkanAdapter } from "./vulkan_adapters.ts";

function adapter(name: string, kind: AdapterKind, ids: readonly number[], pci?: string) {
  const [vendorId, deviceId] = ids as [number, number];
  return {
    name,
    kind,
    vendorId,
    deviceId,
    driverVersion: 0,
    memoryBytes: 8e9,
    ...(pci === undefined ? {} : { pci }),
  };
}

const CPU = adapter("llvmpipe", "cpu", [0x10005, 0]);
const SWIFT = adapter("SwiftShader", "cpu", [0x1ae0, 0xc0de]);
const IRIS = adapter("Iris", "integrated", [0x8086, 0x9a49], "0000:00:02.0");
const A770 = adapter("A770", "discrete", [0x8086, 0x56a0], "0000:03:00.0");
const H100 = ["0000:01:00.0", "0000:41:00.0"].map((pci) =>
  adapter("H100", "discrete", [0x10de, 0x2330], pci)
);

const linux = (adapters: readonly VulkanAdapter[], canSelect = true) => ({
  listing: { adapters, canSelect },
  os: "linux",
});

const variables = (plan: ReturnType<typeof chooseCards>) =>
  plan.map(({ address }) => address.environment?.variables);

Deno.test("usableAdapters() puts GPUs with memory of their own first, and the CPU nowhere beside them", () => {
  assert.deepEqual(usableAdapters([CPU, IRIS, A770]), [A770, IRIS]);
  assert.deepEqual(usableAdapters([CPU, SWIFT]), [CPU, SWIFT]);
  assert.deepEqual(usableAdapters([CPU, A770], true), [CPU]);
});

Deno.test("chooseCards() tells the loader which GPU it is, by its model or by its place", () => {
  const plan = chooseCards({ count: 3 }, linux([CPU, ...H100, A770]));
  assert.deepEqual(plan.map(({ gpu, name }) => [gpu, name]), [[0, "H100"], [1, "H100"], [
    2,
    "A770",
  ]]);
  const shared = {
    DENO_WEBGPU_BACKEND: "vulkan",
    MESA_VK_DEVICE_SELECT_FORCE_DEFAULT_DEVICE: "1",
  };
  assert.deepEqual(variables(plan), [
    { ...shared, DRI_PRIME: "pci-0000_01_00_0" },
    { ...shared, DRI_PRIME: "pci-0000_41_00_0" },
    { ...shared, MESA_VK_DEVICE_SELECT: "8086:56a0" },
  ]);
  const [only, ...others] = new Set(plan.map(({ address }) => address.environment!.lock));
  assert.ok(only && others.length === 0, "one lock for all threads");
  assert.deepEqual(
    chooseCards({ gpus: [2, 0] }, linux([CPU, ...H100, A770])).map(({ name }) => name),
    [
      "A770",
      "H100",
    ],
  );
});

Deno.test("chooseCards() lets workers share software adapters and the system's memory", () => {
  const plan = chooseCards({ count: 3 }, linux([CPU]));
  assert.deepEqual(plan.map(({ gpu }) => gpu), [0, 0, 0]);
  assert.deepEqual(plan.map(({ address }) => address.sharers), [3, 3, 3]);
  assert.deepEqual(variables(plan), [{}, {}, {}]);
  assert.deepEqual(chooseCards({ count: 3 }, linux([CPU, SWIFT])).map(({ gpu }) => gpu), [0, 1, 0]);
  const [a770, iris] = chooseCards({ count: 2 }, linux([A770, IRIS]));
  assert.deepEqual([a770!.address.sharers, iris!.address.sharers], [undefined, undefined]);
});

Deno.test("chooseCards() refuses more than there are, and what it cannot tell apart", () => {
  assert.throws(
    () => chooseCards({ count: 3 }, linux(H100)),
    /this machine has 2 \(GPU 0: H100, GPU 1: H100\)/,
  );
  assert.throws(() => chooseCards({ gpus: [1] }, linux([A770])), /Cannot use GPU 1: .*GPU 0: A770/);
  assert.throws(() => chooseCards({ count: 2 }, linux(H100, false)), /device-select layer/);
  const nowhere = H100.map(({ pci: _, ...rest }) => rest);
  assert.throws(() => chooseCards({ count: 2 }, linux(nowhere)), /apart/);
});

Deno.test("groupCards() makes one plan of cards that work together, and leaves none over", () => {
  const plans = chooseCards({ count: 4 }, linux([...H100, A770, IRIS]));
  const groups = groupCards(plans, 2);
  assert.deepEqual(groups.map(({ gpu }) => gpu), [0, 2]);
  assert.deepEqual(groups[1]!.group, [plans[2]!.address, plans[3]!.address]);
  assert.throws(() => groupCards(plans.slice(1), 2), /groups of 2 GPUs of 3/);
});

Deno.test("chooseCards() goes by preference where nothing lists adapters", () => {
  const mac = { listing: undefined, os: "darwin", arch: "x86_64" };
  const plan = chooseCards({ count: 2 }, mac);
  assert.deepEqual(plan.map(({ address }) => address.powerPreference), [
    "high-performance",
    "low-power",
  ]);
  assert.throws(() => chooseCards({ count: 3 }, mac), /on darwin WebGPU offers two/);
  const apple = { ...mac, arch: "aarch64" };
  assert.equal(chooseCards({ count: 1 }, apple).length, 1);
  assert.throws(() => chooseCards({ gpus: [1] }, apple), /Cannot use GPU 1: a Mac .* has one/);
});
