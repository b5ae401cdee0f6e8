/** A tab whose GPU is lost while it draws. */
import assert from "node:assert/strict";
import { browserTest, openSite } from "./tab.ts";

/** A worker's script that destroys the devices of its thread when it is told so. */
const LOSE = `
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (...options) {
    const device = await requestDevice.apply(this, options);
    new BroadcastChannel("lose").onmessage = () => device.destroy();
    return device;
  };
`;

for (const browser of ["firefox", "chromium"] as const) {
  browserTest(
    `${browser} ends a job whose GPU is lost with an error, and draws the next on a new device`,
    browser,
    async () => {
      await using site = await openSite();
      site.add("/lose.js", new TextEncoder().encode(LOSE));
      site.add("/lost.js", new TextEncoder().encode('import "./lose.js"; import "./worker.js";'));
      const { lost, ms, before, after } = await site.run(
        browser,
        `
        const { loadModel } = await import("./denoise.js");
        const { Worker } = globalThis;
        globalThis.Worker = class extends Worker {
          constructor(url, options) {
            super(new URL("./lost.js", url), options);
          }
        };
        const model = await loadModel();
        const draw = async (options) => {
          const [{ data }] = await model.generate({ prompt: "a red heart", seed: 7, ...options });
          return Array.from(data).join();
        };
        const before = await draw({ numInferenceSteps: 2 });
        let at;
        const lost = await draw({
          numInferenceSteps: 400,
          onProgress: ({ step }) => {
            if (step < 2 || at) return;
            at = performance.now();
            new BroadcastChannel("lose").postMessage("now");
          },
        }).then(() => "drawn", ({ name, message }) => name + ": " + message);
        const ms = performance.now() - at;
        const after = await draw({ numInferenceSteps: 2 });
        await model.close();
        return { lost, ms, before, after };
      `,
        { limitMs: 600_000 },
      ) as Record<"lost" | "before" | "after", string> & { ms: number };
      assert.match(lost, /^DeviceLostError: Cannot go on with the GPU .*: the device was lost/);
      assert.ok(ms < 20_000, `it took ${ms} ms`);
      assert.equal(after, before);
    },
    true,
  );
}

browserTest(
  "chromium ends a job whose GPU process is killed with an error, and draws the next in a new process",
  "chromium",
  async () => {
    await using site = await openSite();
    site.add("/kill", () => Response.json(site.killGpuProcess()));
    const { killed, lost, ms, before, after } = await site.run(
      "chromium",
      `
      const { loadModel } = await import("./denoise.js");
      const model = await loadModel();
      const draw = async (options) => {
        const [{ data }] = await model.generate({ prompt: "a red heart", seed: 7, ...options });
        return Array.from(data).join();
      };
      const before = await draw({ numInferenceSteps: 2 });
      let at;
      let killed;
      const lost = await draw({
        numInferenceSteps: 400,
        onProgress: ({ step }) => {
          if (step < 2 || at) return;
          at = performance.now();
          killed = fetch("./kill").then((answer) => answer.json());
        },
      }).then(() => "drawn", ({ name, message }) => name + ": " + message);
      const ms = performance.now() - at;
      const after = await draw({ numInferenceSteps: 2 });
      await model.close();
      return { killed: await killed, lost, ms, before, after };
    `,
      { limitMs: 600_000 },
    ) as Record<"lost" | "before" | "after", string> & { killed: boolean; ms: number };
    assert.ok(killed, "the browser has no GPU process");
    assert.match(lost, /^DeviceLostError: Cannot go on with the GPU/);
    assert.ok(ms < 20_000, `it took ${ms} ms`);
    assert.equal(after, before);
  },
  true,
);
