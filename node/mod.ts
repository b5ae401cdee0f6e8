/**
 * denoise under Node 24 and Bun: the library as under Deno, through Dawn, the npm package `webgpu`.
 */
import "./runtime.ts";

export * from "../mod.ts";
