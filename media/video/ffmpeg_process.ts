/** A build of FFmpeg that is called as a program: the system's, or the one that comes with denoise. */

import { harmlessEnvironment, limited } from "../isolated/limits.ts";
import { startFolder } from "../isolated/program.ts";
import {
  type Ffmpeg,
  type FfmpegCall,
  ffmpegError,
  type FfmpegSink,
  FfmpegTimeError,
} from "./ffmpeg.ts";

/** What is kept of standard error, in characters. */
const KEPT_MESSAGES = 8192;

/** Seconds on all cores for each second that a call may take. */
const CORES = 4;

/** Files that a call reads and writes, by their absolute paths. */
interface FfmpegPaths {
  /** Files that the process reads. */
  readonly read: readonly string[];
  /** Files that the process writes. */
  readonly write: readonly string[];
}

/** How a build is started. */
interface FfmpegBuild {
  /** Version and kind of ffmpeg, for people. */
  readonly description: string;
  /** Program and first arguments. */
  command(paths: FfmpegPaths, memoryBytes: number | undefined): string[];
  /** Memory that the program takes for itself, in bytes, whatever the call does. */
  readonly ownMemoryBytes: number;
}

/** FFmpeg, called as a program. */
export class FfmpegProcess implements Ffmpeg {
  readonly #build: FfmpegBuild;

  constructor(build: FfmpegBuild) {
    this.#build = build;
  }

  /** Version and kind of ffmpeg, for people. */
  get description(): string {
    return this.#build.description;
  }

  /** See {@link Ffmpeg.encode}. */
  encode(call: FfmpegCall, output: string): FfmpegSink {
    const { child, ended } = this.#start(call, `file:${output}`, [output]);
    void child.stdout.cancel();
    const writer = child.stdin.getWriter();
    return {
      // A program that died refuses its input; `finish` has the reason from standard error.
      write: (bytes) => writer.write(bytes).catch(() => {}),
      finish: async () => {
        await writer.close().catch(() => {});
        await ended();
      },
    };
  }

  /** See {@link Ffmpeg.decode}. */
  decode(call: FfmpegCall): ReadableStream<Uint8Array> {
    const { child, ended, kill } = this.#start(call, "pipe:1", []);
    void child.stdin.close().catch(() => {});
    const reader = child.stdout.getReader();
    return new ReadableStream({
      async pull(controller) {
        const { value, done } = await reader.read();
        if (!done) return controller.enqueue(value);
        await ended();
        controller.close();
      },
      async cancel() {
        kill();
        await reader.cancel();
        await ended().catch(() => {});
      },
    });
  }

  #start({ inputs, signal, limits, ...call }: FfmpegCall, output: string, write: string[]) {
    signal?.throwIfAborted();
    const args = call.arguments({
      // The prefix keeps a name with a colon from being read as a protocol.
      inputs: inputs.map((path) => `file:${path}`),
      stdin: "pipe:0",
      output,
    });
    const [program, ...first] = this.#command({ read: inputs, write }, limits);
    const child = new Deno.Command(program!, {
      args: [...first, "-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...args],
      cwd: startFolder(),
      clearEnv: true,
      env: harmlessEnvironment(),
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const kill = () => {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
    };
    const { timeoutMs } = limits ?? {};
    let isLate = false;
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => {
      isLate = true;
      kill();
    }, timeoutMs);
    signal?.addEventListener("abort", kill);
    const messages = lastOf(child.stderr);
    const ended = async () => {
      const [{ success }, said] = await Promise.all([child.status, messages]);
      clearTimeout(timer);
      signal?.removeEventListener("abort", kill);
      signal?.throwIfAborted();
      if (isLate) throw new FfmpegTimeError(`FFmpeg took more than ${timeoutMs! / 1000} s`);
      if (!success) throw ffmpegError(said);
      call.onSaid?.(said);
    };
    return { child, ended, kill };
  }

  #command(paths: FfmpegPaths, limits: FfmpegCall["limits"]): string[] {
    const command = this.#build.command(paths, limits?.memoryBytes);
    if (limits === undefined) return command;
    const { memoryBytes, timeoutMs = Infinity } = limits;
    return limited(command, {
      memoryBytes: memoryBytes + this.#build.ownMemoryBytes,
      cpuSeconds: CORES * Math.ceil(timeoutMs / 1000),
    });
  }
}

/** The end of a text that may be long. */
async function lastOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  let text = "";
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    text = (text + part).slice(-KEPT_MESSAGES);
  }
  return text;
}
