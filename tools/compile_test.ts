import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { BUNDLED_LORAS } from "../models/lora/bundled.ts";
import { compileArguments, embeddedPaths, isReadAtRunTime } from "./compile.ts";
import { denoFor } from "./platforms/system.ts";
import { DENO, listTree, ROOT } from "./root.ts";

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

/** Platforms of executables: the name of Deno's package, how a program begins there, and its processor, in hexadecimal digits. */
const TARGETS: Readonly<Record<string, readonly [name: string, begin: string, processor: string]>> =
  {
    "x86_64-unknown-linux-gnu": ["linux-x64-glibc", "7f454c46", "3e00"],
    "aarch64-unknown-linux-gnu": ["linux-arm64-glibc", "7f454c46", "b700"],
    "x86_64-pc-windows-msvc": ["win32-x64", "4d5a", "6486"],
    "x86_64-apple-darwin": ["darwin-x64", "cffaedfe", "07000001"],
    "aarch64-apple-darwin": ["darwin-arm64", "cffaedfe", "0c000001"],
  };

/** Where a program names its processor: in a Windows program behind the offset of its header. */
function processorAt(program: Buffer, target: string): number {
  if (target.includes("windows")) return program.readUInt32LE(0x3c) + 4;
  return target.includes("linux") ? 18 : 4;
}

/** Files that an executable must hold as they are: what is read, and what is started, at run time. */
function heldFiles(): string[] {
  const listed = embeddedPaths()
    .flatMap((path) => path.endsWith(".ts") ? [path] : listTree(path, [""]));
  const programs = ["media/isolated/image", "media/video/ffmpeg", "report/section"];
  const shaders = listTree("runtime/shaders/elementwise", [".wgsl"]);
  return [...listed, ...programs.map((name) => `${name}_program.ts`), ...shaders];
}

for (const [target, [name, begin, processor]] of Object.entries(TARGETS)) {
  const isOwn = target === Deno.build.target;
  Deno.test({
    name: `the executable for ${target} is built, and holds what is read at run time${
      isOwn ? "" : " (slow)"
    }`,
    ignore: !isOwn && !Deno.env.has("DENOISE_SLOW"),
    fn: async () => {
      const folder = await Deno.makeTempDir();
      try {
        // The program that runs in executables comes from the network; Deno itself takes its place.
        const runtime = isOwn
          ? DENO
          : join(await denoFor(name), target.includes("windows") ? "deno.exe" : "deno");
        const output = join(folder, target.includes("windows") ? "denoise.exe" : "denoise");
        const options = ["--no-check", "--quiet", "--target", target, "--output", output];
        const { success, stderr } = await new Deno.Command(DENO, {
          args: await compileArguments(options),
          cwd: ROOT,
          env: { DENORT_BIN: runtime },
        }).output();
        assert.ok(success, new TextDecoder().decode(stderr));
        const program = Buffer.from((await Deno.readFile(output)).buffer);
        const hex = (at: number, digits: string) =>
          program.subarray(at, at + digits.length / 2).toString("hex");
        assert.equal(hex(0, begin), begin);
        assert.equal(hex(processorAt(program, target), processor), processor);
        const files = heldFiles();
        assert.ok(files.length > 20, files.join());
        // On Linux they lie behind the program that runs them.
        const { size } = await Deno.stat(runtime);
        const embedded = target.includes("linux") ? program.subarray(size) : program;
        const missing = files.filter((path) =>
          !embedded.includes(Buffer.from(Deno.readFileSync(new URL(path, ROOT))))
        );
        assert.deepEqual(missing, []);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}
