import assert from "node:assert/strict";
import { openDevice } from "../../open_device.ts";
import { defaultBackend } from "./backend.ts";
import { openFaster } from "../../backend_race.ts";

function withVariable(value: string | undefined, check: () => void): void {
  const name = "DENOISE_GPU_BACKEND";
  const before = Deno.env.get(name);
  const set = (to: string | undefined) =>
    to === undefined ? Deno.env.delete(name) : Deno.env.set(name, to);
  set(value);
  try {
    check();
  } finally {
    set(before);
  }
}

Deno.test("defaultBackend() is Deno's own, or what the environment names", () => {
  withVariable(undefined, () => assert.equal(defaultBackend(), "deno"));
  withVariable("", () => assert.equal(defaultBackend(), "deno"));
  withVariable("dawn", () => assert.equal(defaultBackend(), "dawn"));
  withVariable("metal", () => assert.throws(defaultBackend, /DENOISE_GPU_BACKEND=metal/));
});

Deno.test("openFaster() takes Deno's own at once where Dawn does not open", async () => {
  const asked: string[] = [];
  const device = await openFaster(async (backend) => {
    asked.push(backend);
    if (backend === "dawn") throw new Error("not there");
    return await openDevice();
  });
  assert.deepEqual(asked, ["dawn", "deno"]);
  assert.deepEqual([device.counters.submits, device.counters.pipelines], [0, 0]);
  device.destroy();
});

Deno.test("openFaster() keeps one device, with nothing left on it", async () => {
  const lost: string[] = [];
  const device = await openFaster(async (backend) => {
    const opened = await openDevice();
    opened.lost.then(() => lost.push(backend));
    return opened;
  });
  assert.equal(device.allocatedBytes, 0);
  await device.wait();
  assert.equal(lost.length, 1);
  device.destroy();
});

Deno.test("openFaster() keeps Dawn where Deno's own does not open", async () => {
  const device = await openFaster(async (backend) => {
    if (backend === "deno") throw new Error("no adapter");
    return await openDevice();
  });
  await device.wait();
  device.destroy();
});
