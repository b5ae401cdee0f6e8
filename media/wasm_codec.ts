/** Image codecs compiled by Emscripten; their wasm is imported as bytes, so that workers and executables have it, too. */

import { ImageError, type RgbaImage } from "./image.ts";

interface WasmCodec<T> {
  /** Calls the codec; after a failure or much memory, which never shrinks, the next call gets a fresh instance. */
  run<R>(use: (codec: T) => R): Promise<R>;
}

/** The part of Emscripten's module object that is read here. */
interface EmscriptenInstance {
  readonly HEAPU8?: Uint8Array;
}

type EmscriptenFactory = (options: {
  readonly noInitialRun: boolean;
  readonly print: () => void;
  readonly printErr: () => void;
  readonly instantiateWasm: (
    imports: WebAssembly.Imports,
    ready: (instance: WebAssembly.Instance) => void,
  ) => WebAssembly.Exports;
}) => Promise<EmscriptenInstance>;

/** An instance with more memory than this is dropped after use. */
const KEEP_BELOW_BYTES = 256 * 2 ** 20;

/** Wraps an Emscripten factory. Nothing is compiled before the first use. */
export function wasmCodec<T>(factory: unknown, wasm: Uint8Array<ArrayBuffer>): WasmCodec<T> {
  const create = factory as EmscriptenFactory;
  let compiled: Promise<WebAssembly.Module> | undefined;
  let instance: Promise<EmscriptenInstance> | undefined;

  const instantiate = async (): Promise<EmscriptenInstance> => {
    const module = await (compiled ??= WebAssembly.compile(wasm));
    return await create({
      noInitialRun: true,
      print: () => {},
      printErr: () => {},
      instantiateWasm: (imports, ready) => {
        const made = new WebAssembly.Instance(module, imports);
        ready(made);
        return made.exports;
      },
    });
  };

  return {
    async run<R>(use: (codec: T) => R): Promise<R> {
      const using = (instance ??= instantiate());
      try {
        const codec = await using;
        const result = use(codec as T);
        if ((codec.HEAPU8?.byteLength ?? 0) > KEEP_BELOW_BYTES && instance === using) {
          instance = undefined;
        }
        return result;
      } catch (thrown) {
        if (instance === using) instance = undefined;
        // Emscripten throws numbers and plain objects: callers deserve an Error.
        throw thrown instanceof Error ? thrown : new Error("The codec stopped", { cause: thrown });
      }
    },
  };
}

/** Pixels as stored in a file of foreign bytes; null of the codec is a damaged file, too. */
export async function decodeWith<T>(
  codec: WasmCodec<T>,
  name: string,
  decode: (codec: T) => ImageData | null,
): Promise<RgbaImage> {
  const pixels = await codec.run(decode).catch((cause) => {
    throw new ImageError(`Cannot read ${name}: the file is damaged`, { cause });
  });
  if (pixels === null) throw new ImageError(`Cannot read ${name}: the file is damaged`);
  const { width, height, data } = pixels;
  return {
    width,
    height,
    channels: 4,
    data: new Uint8Array(data.buffer, data.byteOffset, data.length),
  };
}
