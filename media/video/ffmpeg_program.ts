/**
 * The FFmpeg that comes with denoise as a program: takes how much memory it may have, and then the arguments of the
 * original, whose inputs and outputs are named `file:…`, `pipe:0` and `pipe:1`.
 */

import createFfmpegCore from "@ffmpeg/core";
import wasm from "@ffmpeg/core/wasm" with { type: "bytes" };
import { capWasmMemory } from "../wasm_memory.ts";
import { type EmscriptenFs, mountFile, mountInput, mountOutput } from "./ffmpeg_files.ts";

/** The part of the Emscripten module that is used here. */
interface FfmpegCore {
  readonly FS: EmscriptenFs;
  exec(...args: string[]): number;
  setLogger(logger: (line: { type: string; message: string }) => void): void;
}

/** Runs the program: the most memory in bytes, and then arguments as FFmpeg has them; the last one is the output. */
export async function runFfmpegProgram([memoryBytes, ...args]: readonly string[]): Promise<number> {
  // The core was built for workers of browsers, which have an address.
  Object.defineProperty(globalThis, "location", { value: { href: "file:///" } });
  const create = createFfmpegCore as (options: { wasmBinary: Uint8Array }) => Promise<FfmpegCore>;
  const core = await create({ wasmBinary: capWasmMemory(wasm, Number(memoryBytes)) });
  core.setLogger(({ message }) => {
    // How Emscripten says that a program called exit().
    if (message !== "Aborted()") console.error(message);
  });
  const mounted = args.map((arg, index) => {
    const path = `/file${index}`;
    if (arg === "pipe:0") mountInput(core.FS, path);
    else if (arg === "pipe:1") mountOutput(core.FS, path);
    else if (arg.startsWith("file:")) {
      mountFile(core.FS, path, arg.slice("file:".length), index === args.length - 1);
    } else return arg;
    return path;
  });
  // These two are what the core gives itself.
  return core.exec(...mounted.filter((arg) => arg !== "-nostdin" && arg !== "-y"));
}

if (import.meta.main) Deno.exit(await runFfmpegProgram(Deno.args));
