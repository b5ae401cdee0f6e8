import { strict as assert } from "node:assert";
import { BUNDLED_LORAS } from "../models/lora/bundled.ts";
import { embeddedPaths, isReadAtRunTime } from "./compile.ts";

Deno.test("isReadAtRunTime() takes workers, not modules, shaders or tests", () => {
  for (const path of ["engine/worker.ts", "engine/gpu_worker.ts"]) {
    assert.ok(isReadAtRunTime(path), path);
  }
  for (
    const path of [
      "engine/worker_test.ts",
      "engine/coworker.ts",
      "engine/jobs.ts",
      "runtime/shaders/a.wgsl",
    ]
  ) {
    assert.ok(!isReadAtRunTime(path), path);
  }
});

Deno.test("embeddedPaths() gives paths that are there, the bundled model among them", async () => {
  const paths = embeddedPaths();
  assert.ok(paths.includes("models/bundled"));
  for (const path of paths) await Deno.stat(new URL(`../${path}`, import.meta.url));
});

Deno.test("embeddedPaths() covers the LoRAs of the bundled model, and they are there", async () => {
  const root = new URL("../", import.meta.url).href;
  const paths = embeddedPaths();
  for (const [name, file] of Object.entries(BUNDLED_LORAS)) {
    const path = file.href.slice(root.length);
    assert.ok(
      paths.some((each) => path === each || path.startsWith(`${each}/`)),
      `${name}: ${path}`,
    );
    assert.ok((await Deno.stat(file)).isFile, name);
  }
});

Deno.test("the executable holds the programs that it starts as processes", async () => {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "cli.ts"],
    cwd: new URL("../", import.meta.url),
    stderr: "null",
  }).output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout));
  const specifiers = modules.map(({ specifier }: { specifier: string }) => specifier);
  for (
    const name of [
      "media/isolated/image_program.ts",
      "media/video/ffmpeg_program.ts",
      "report/section_program.ts",
    ]
  ) assert.ok(specifiers.some((each: string) => each.endsWith(`/${name}`)), name);
});
