/**
 * The libraries that the bench is held against, and the only place that loads them.
 *
 * They are not in deno.json on purpose. On any start Deno fetches all that its lock names, and these are 150 MB
 * that nobody who serves or tests needs. So their names are put together at run time, out of sight of checks and
 * of the import graph, and the process that loads them (`process.ts`) is started without the project's
 * configuration and with a lock of its own, `peers/deno.lock`. To take another version: change it here, delete
 * that lock, run `deno run -A --no-config --lock tools/bench/peers/deno.lock tools/bench/peers/packages.ts`.
 */

/** A package by exact version. */
interface PeerPackage {
  /** How tables name it. */
  readonly name: string;
  /** `npm:name@version`, as locks have it. */
  readonly specifier: string;
  /** What is imported of it, with a slash in front; the whole package when empty. */
  readonly entry: string;
}

/** jax-js: arrays and their compiler in TypeScript, with a WebGPU backend. */
export const JAX: PeerPackage = {
  name: "jax-js",
  specifier: "npm:@jax-js/jax@0.1.25",
  entry: "",
};

/** ONNX Runtime for the web, whose WebGPU provider is compiled to WebAssembly. */
export const ONNX_RUNTIME: PeerPackage = {
  name: "onnxruntime-web",
  specifier: "npm:onnxruntime-web@1.30.0",
  entry: "/webgpu",
};

/**
 * Loads a package, and fetches it when it is not in Deno's cache.
 *
 * @throws {TypeError} when it cannot be fetched
 */
export async function loadPackage({ specifier, entry }: PeerPackage): Promise<unknown> {
  return await import(specifier + entry);
}

if (import.meta.main) {
  for (const peer of [JAX, ONNX_RUNTIME]) await loadPackage(peer);
}
