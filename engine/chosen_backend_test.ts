/** Which WebGPU implementation `auto` takes, on a machine where Dawn seems to be installed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeviceOptions } from "../runtime/mod.ts";
import { openChosenDevice } from "./tuned_device.ts";

const platform = `${Deno.build.os}-${Deno.build.arch === "x86_64" ? "x64" : "arm64"}`;

async function withFolders(use: (cache: string, dawn: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const before = Deno.env.get("DENOISE_DAWN");
  const dawn = join(folder, "dawn");
  await Deno.mkdir(join(dawn, "dist", platform), { recursive: true });
  await Deno.writeTextFile(join(dawn, "dist", platform, "dawn.node"), "");
  Deno.env.set("DENOISE_DAWN", dawn);
  try {
    await use(join(folder, "cache"), dawn);
  } finally {
    if (before === undefined) Deno.env.delete("DENOISE_DAWN");
    else Deno.env.set("DENOISE_DAWN", before);
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name:
    "openChosenDevice() races the implementations once, keeps the winner, and races none without Dawn",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withFolders(async (cache, dawn) => {
      let openings = 0;
      const gpu = {
        async requestAdapter(options?: GPURequestAdapterOptions) {
          const adapter = await navigator.gpu.requestAdapter(options);
          const request = adapter!.requestDevice.bind(adapter);
          // The probe for subgroups opens a device too.
          adapter!.requestDevice = (descriptor) => {
            if (descriptor?.label) openings++;
            return request(descriptor);
          };
          return adapter;
        },
      } as GPU;
      const notes: string[] = [];
      const note = (line: string) => void notes.push(line);
      const open = async (settings: DeviceOptions = {}) => {
        openings = 0;
        const device = await openChosenDevice({ gpu, backend: "auto", ...settings }, cache, note);
        const { backend } = device.adapter;
        device.destroy();
        return { openings, backend };
      };
      const first = await open();
      assert.equal(first.openings, 2);
      assert.match(
        notes[0]!,
        /^WebGPU of (Dawn|Deno) is the faster one here, kept in .*backend\.json$/,
      );
      assert.deepEqual(await open(), { ...first, openings: 1 });
      assert.equal((await open({ powerPreference: "low-power" })).openings, 2, "another adapter");
      const path = join(cache, "backend.json");
      const kept = JSON.parse(await Deno.readTextFile(path));
      await Deno.writeTextFile(path, JSON.stringify({ ...kept, adapter: "another" }));
      assert.equal((await open({ powerPreference: "low-power" })).openings, 3, "another card");
      await Deno.writeTextFile(path, "{");
      assert.equal((await open()).openings, 2, "a damaged file");
      await Deno.remove(join(dawn, "dist"), { recursive: true });
      assert.deepEqual(await open(), { openings: 1, backend: "deno" });
    }),
});
