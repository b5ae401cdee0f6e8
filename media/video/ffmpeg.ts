/** One way to call FFmpeg: the system's program, or the one in WebAssembly that comes with denoise. */

import { startProgram } from "../../platform/disk.ts";
import { harmlessEnvironment, lastOf, limited, startFolder } from "../isolated/program.ts";

/** Where a call finds its files; a name for a command line each. */
interface FfmpegFiles {
  /** The inputs, in the order of {@link FfmpegCall.inputs}. */
  readonly inputs: readonly string[];
  /** Where the bytes are that the caller writes. */
  readonly stdin: string;
  /** Where the result goes. */
  readonly output: string;
}

/** What a call may take of the machine. */
export interface FfmpegLimits {
  readonly memoryBytes: number;
  /** Most time, in milliseconds; as long as it takes by default. */
  readonly timeoutMs?: number;
}

interface FfmpegCall {
  arguments(files: FfmpegFiles): string[];
  /** Absolute paths of files that it reads. */
  readonly inputs: readonly string[];
  /** Called before the call ends well, with the last of what FFmpeg said; arguments may ask for more than errors. */
  onSaid?(text: string): void;
  /** Limits of the call; left out for one that reads nothing but our own frames. */
  readonly limits?: FfmpegLimits;
  /** Stops it; it then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

interface FfmpegSink {
  /** Hands over bytes; resolves when more may come. After a failure it does nothing. */
  write(bytes: Uint8Array): Promise<void>;
  /** Says that this was all, and waits for the file. */
  finish(): Promise<void>;
}

export interface Ffmpeg {
  /** Version and kind of ffmpeg, for people. */
  readonly description: string;
  /** Starts a call that reads what it is given and makes a file. */
  encode(call: FfmpegCall, output: string): FfmpegSink;
  /** Starts a call that gives a stream of bytes, to be read to its end or cancelled; it fails where the call does. */
  decode(call: FfmpegCall): ReadableStream<Uint8Array>;
}

export class FfmpegError extends Error {
  override readonly name: string = "FfmpegError";
}

/** Thrown when FFmpeg was stopped because it took too long. */
export class FfmpegTimeError extends FfmpegError {
  override readonly name = "FfmpegTimeError";
}

/** How many lines of what FFmpeg said an error repeats. */
const REPORTED_LINES = 4;

function ffmpegError(said: string): FfmpegError {
  const lines = said.trim().split(/[\r\n]+/).slice(-REPORTED_LINES);
  const text = lines.join("; ").replaceAll(/(?:file:)?\/[^\s:;'"]+/g, "the file");
  return new FfmpegError(`FFmpeg failed: ${text || "it gave no reason"}`);
}

/** What is kept of standard error, in characters. */
const KEPT_MESSAGES = 8192;

/** Seconds on all cores for each second that a call may take. */
const CORES = 4;

/** Files that a call reads and writes, by their absolute paths. */
interface FfmpegPaths {
  readonly read: readonly string[];
  readonly write: readonly string[];
}

interface FfmpegBuild {
  readonly description: string;
  /** Program and first arguments. */
  command(paths: FfmpegPaths, memoryBytes: number | undefined): string[];
  /** Memory that the program takes for itself, in bytes, whatever the call does. */
  readonly ownMemoryBytes: number;
}

export class FfmpegProcess implements Ffmpeg {
  readonly #build: FfmpegBuild;

  constructor(build: FfmpegBuild) {
    this.#build = build;
  }

  get description(): string {
    return this.#build.description;
  }

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
    const command = this.#command({ read: inputs, write }, limits);
    const child = startProgram(
      [...command, "-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...args],
      { folder: startFolder(), environment: harmlessEnvironment() },
    );
    const kill = () => {
      try {
        child.kill();
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
    const messages = lastOf(child.stderr, KEPT_MESSAGES);
    const ended = async () => {
      const [isDone, said] = await Promise.all([child.isDone, messages]);
      clearTimeout(timer);
      signal?.removeEventListener("abort", kill);
      signal?.throwIfAborted();
      if (isLate) throw new FfmpegTimeError(`FFmpeg took more than ${timeoutMs! / 1000} s`);
      if (!isDone) throw ffmpegError(said);
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
