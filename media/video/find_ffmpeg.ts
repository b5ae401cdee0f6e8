/** Which build of FFmpeg this machine offers. */

import { environment, startProgram } from "../../platform/disk.ts";
import { env } from "../../platform/mod.ts";
import { programCommand, startFolder } from "../isolated/program.ts";
import { type Ffmpeg, FfmpegProcess } from "./ffmpeg.ts";

export interface FindFfmpegOptions {
  /** The program; by default what `FFMPEG` names, else `ffmpeg` on the path. */
  readonly program?: string;
  readonly onlyBundled?: boolean;
}

/** What the engine of JavaScript takes of a memory limit, in bytes; most of it is never touched. */
const RUNTIME_MEMORY = 8e8;

/** Most memory that the module was built for, in bytes. */
const MAX_WASM_MEMORY = 2 ** 31;

/** Finds the best build with libx264: the system's program is several times faster than WebAssembly. */
export async function findFfmpeg(options: FindFfmpegOptions = {}): Promise<Ffmpeg> {
  if (!options.onlyBundled) {
    const program = options.program ?? env("FFMPEG") ?? "ffmpeg";
    const system = await systemFfmpeg(program);
    if (system) return system;
  }
  return bundledFfmpeg();
}

/** The build in WebAssembly that comes with denoise: slower than the system's, but always there. */
export function bundledFfmpeg(): Ffmpeg {
  return new FfmpegProcess({
    description: "ffmpeg 5.1.4 in WebAssembly, bundled",
    command: ({ read, write }, memoryBytes) => [
      // The index of an MP4 goes in front by reading what was written.
      ...programCommand("ffmpeg", { read: [...read, ...write], write }),
      String(memoryBytes ?? MAX_WASM_MEMORY),
    ],
    ownMemoryBytes: RUNTIME_MEMORY,
  });
}

/** A program of this machine; nothing when it is absent or lacks libx264. */
export async function systemFfmpeg(program: string): Promise<Ffmpeg | undefined> {
  const run = async (...args: string[]) => {
    const child = startProgram([program, ...args], {
      folder: startFolder(),
      environment: environment(),
    });
    void child.stdin.close().catch(() => {});
    void child.stderr.cancel().catch(() => {});
    const said = await new Response(child.stdout).text();
    return await child.isDone ? said : "";
  };
  try {
    const version = /^ffmpeg version (\S+)/.exec(await run("-version"))?.[1];
    const hasX264 = (await run("-hide_banner", "-encoders")).includes(" libx264 ");
    if (!version || !hasX264) return undefined;
    return new FfmpegProcess({
      description: `ffmpeg ${version}, of this system`,
      command: () => [program],
      ownMemoryBytes: 0,
    });
  } catch {
    return undefined;
  }
}
