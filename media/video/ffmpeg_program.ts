/** FFmpeg in WebAssembly as a program: a limit of memory, then FFmpeg's arguments, with files as `file:…`, `pipe:0`, `pipe:1`. */

import createFfmpegCore from "@ffmpeg/core";
import wasm from "@ffmpeg/core/wasm" with { type: "bytes" };
import { capWasmMemory } from "../wasm_memory.ts";

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

/** Emscripten's file system, as far as it is used here. */
interface EmscriptenFs {
  writeFile(path: string, bytes: Uint8Array): void;
  lookupPath(path: string): { readonly node: EmscriptenNode };
}

interface EmscriptenNode {
  node_ops: {
    getattr(node: EmscriptenNode): { size: number };
    setattr(node: EmscriptenNode, change: { size?: number }): void;
  };
  stream_ops: Partial<StreamOps>;
}

interface StreamOps {
  llseek(stream: { position: number }, offset: number, whence: number): number;
  read(_: unknown, memory: Int8Array, at: number, length: number, position: number): number;
  write(_: unknown, memory: Int8Array, at: number, length: number, position: number): number;
}

/** What a node does in place of Emscripten's own. */
interface HostFile {
  size?(): number;
  truncate?(size: number): void;
  read?(bytes: Uint8Array, position: number): number;
  write?(bytes: Uint8Array, position: number): void;
}

function mountFile(fs: EmscriptenFs, path: string, hostPath: string, isOutput: boolean): void {
  const file = Deno.openSync(
    hostPath,
    isOutput ? { read: true, write: true, create: true, truncate: true } : { read: true },
  );
  mount(fs, path, {
    size: () => file.statSync().size,
    read: (bytes, position) => {
      file.seekSync(position, Deno.SeekMode.Start);
      return file.readSync(bytes) ?? 0;
    },
    ...(isOutput
      ? {
        truncate: (size) => file.truncateSync(size),
        write: (bytes, position) => {
          file.seekSync(position, Deno.SeekMode.Start);
          writeWhole(file, bytes);
        },
      }
      : {}),
  });
}

function mountInput(fs: EmscriptenFs, path: string): void {
  mount(fs, path, { read: (bytes) => Deno.stdin.readSync(bytes) ?? 0 });
}

function mountOutput(fs: EmscriptenFs, path: string): void {
  mount(fs, path, { write: (bytes) => writeWhole(Deno.stdout, bytes) });
}

function mount(fs: EmscriptenFs, path: string, file: HostFile): void {
  fs.writeFile(path, new Uint8Array(0));
  const { node } = fs.lookupPath(path);
  const own = node.node_ops;
  const { size = () => 0, read, write } = file;
  node.node_ops = {
    ...own,
    getattr: (node) => ({ ...own.getattr(node), size: size() }),
    setattr: (node, change) =>
      change.size === undefined ? own.setattr(node, change) : file.truncate?.(change.size),
  };
  const ops: Partial<StreamOps> = {
    llseek: ({ position }, offset, whence) =>
      offset + (whence === 1 ? position : whence === 2 ? size() : 0),
  };
  if (read) {
    ops.read = (_, memory, at, length, position) => read(view(memory, at, length), position);
  }
  if (write) {
    ops.write = (_, memory, at, length, position) => {
      write(view(memory, at, length), position);
      return length;
    };
  }
  node.stream_ops = ops;
}

function view(memory: Int8Array, at: number, length: number): Uint8Array {
  return new Uint8Array(memory.buffer, memory.byteOffset + at, length);
}

function writeWhole(file: { writeSync(bytes: Uint8Array): number }, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;) written += file.writeSync(bytes.subarray(written));
}

if (import.meta.main) Deno.exit(await runFfmpegProgram(Deno.args));
