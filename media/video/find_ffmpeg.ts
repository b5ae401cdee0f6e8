/**
 * Which build of FFmpeg this machine offers.
 *
 * @module
 */

import type { Ffmpeg } from "./ffmpeg.ts";
import { SystemFfmpeg } from "./ffmpeg_system.ts";
import { WasmFfmpeg } from "./ffmpeg_wasm.ts";

/** Which build to look for. */
export interface FindFfmpegOptions {
  /** The program; by default what `FFMPEG` names, else `ffmpeg` on the path. */
  readonly program?: string;
  /** Do not look for a program. */
  readonly onlyBundled?: boolean;
}

/**
 * Finds the best build at hand: the system's program is several times faster than WebAssembly.
 *
 * @param options where to look
 * @returns a build with libx264
 */
export async function findFfmpeg(options: FindFfmpegOptions = {}): Promise<Ffmpeg> {
  if (!options.onlyBundled) {
    const system = await SystemFfmpeg.find(options.program ?? Deno.env.get("FFMPEG") ?? "ffmpeg");
    if (system) return system;
  }
  return new WasmFfmpeg();
}
