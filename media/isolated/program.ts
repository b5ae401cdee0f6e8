/** Programs in processes of their own: unlike threads they can be killed at work, have limits, and break down alone. */

import { environment, moduleRunner, workingFolder } from "../../platform/disk.ts";
import { OS, packedProgram } from "../../platform/mod.ts";

type ProgramName = "images" | "ffmpeg";

/** The command of a compiled executable that is one of the programs instead. */
export const PROGRAM_COMMAND = "media-program";

interface ProgramPermissions {
  readonly read?: readonly string[];
  readonly write?: readonly string[];
}

const MODULES: Readonly<Record<ProgramName, URL>> = {
  images: new URL("./image_program.ts", import.meta.url),
  ffmpeg: new URL("../video/ffmpeg_program.ts", import.meta.url),
};

let isInExecutable = false;

/** Says that the executable that runs has the command {@link PROGRAM_COMMAND}. */
export function announceProgramCommand(): void {
  isInExecutable = true;
}

export function programCommand(
  name: ProgramName,
  { read = [], write = [] }: ProgramPermissions = {},
): string[] {
  const packed = packedProgram();
  if (packed !== undefined && isInExecutable) return [packed, PROGRAM_COMMAND, name];
  const deno = moduleRunner();
  if (deno === undefined) {
    throw new Error(
      "Cannot start the program that reads images and video: the npm package lacks it; " +
        "install FFmpeg with libx264 for videos, or use the sources of denoise or its executable",
    );
  }
  return [
    deno,
    ...["run", "--quiet", "--no-check", "--no-prompt"],
    ...permission("--allow-read", read),
    ...permission("--allow-write", write),
    MODULES[name].href,
  ];
}

/** The folder in which to start a program: the working folder, or one that is there when that was removed. */
export function startFolder(): string {
  try {
    return workingFolder();
  } catch {
    return "/";
  }
}

function permission(flag: string, paths: readonly string[]): string[] {
  // A comma divides paths; two stand for one.
  return paths.length > 0
    ? [`${flag}=${paths.map((path) => path.replaceAll(",", ",,")).join()}`]
    : [];
}

/** Limits that the system enforces, beside the time after which a process is killed. */
interface ProcessLimits {
  readonly memoryBytes: number;
  /** Most time on all cores together, in seconds, or `Infinity`: for what goes on when nobody is left to kill it. */
  readonly cpuSeconds: number;
}

/** Puts a command under limits; on Windows, checks before and the time limit have to do. */
export function limited(
  command: readonly string[],
  { memoryBytes, cpuSeconds }: ProcessLimits,
): string[] {
  if (OS === "windows") return [...command];
  // Data, not address space: JavaScript engines and allocators reserve far more than they use.
  const limit = (option: string) => `ulimit ${option} 2>/dev/null;`;
  const script = `${limit("-c 0")} ${limit('-d "$1"')} ${limit('-t "$2"')} shift 2; exec "$@"`;
  const kib = String(Math.floor(memoryBytes / 1024));
  return [
    "/bin/sh",
    "-c",
    script,
    "sh",
    kib,
    cpuSeconds === Infinity ? "unlimited" : String(cpuSeconds),
    ...command,
  ];
}

/** Names of variables that hold what a decoder must not learn. */
const SECRET = /TOKEN|SECRET|PASSW|CREDENTIAL|_KEY|COOKIE|AUTH/i;

/** The variables of this process without those that look like secrets, for a process that reads foreign bytes. */
export function harmlessEnvironment(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment()).filter(([name]) => !SECRET.test(name)),
  );
}

/** The end of what a process prints, in characters. */
export async function lastOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  most: number,
): Promise<string> {
  let text = "";
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    text = (text + part).slice(-most);
  }
  return text;
}
