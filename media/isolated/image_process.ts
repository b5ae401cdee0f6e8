/** One run of the image program. */

import { frameHead, readFrame } from "./frames.ts";
import type { ImageReply, ImageResults, ImageTask, ImageTaskOf } from "./image_program.ts";
import { harmlessEnvironment, limited, programCommand, startFolder } from "./program.ts";

/** What a task works on: bytes, or the path of a file. */
export type ImageSource = Uint8Array | { readonly path: string };

/** Thrown when a process ended before it had answered. */
export class ProcessEndedError extends Error {
  override readonly name = "ProcessEndedError";
}

export class TimeLimitError extends Error {
  override readonly name = "TimeLimitError";
}

/** Thrown when a process answered that its task failed: name and message are those of the error there. */
export class TaskError extends Error {
  constructor(override readonly name: string, message: string) {
    super(message);
  }
}

interface TaskLimits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** What the process may write to: the largest image takes 0.7 GB, and the engine counts 0.5 GB that it never touches. */
const LIMITS = { memoryBytes: 1.6e9, cpuSeconds: 600 };

/** How long a process works in all, in milliseconds: one task more is still within its limit. */
const LIFE_MS = 100_000;

export class ImageProcess {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #output: ReadableStreamBYOBReader;
  readonly #lifeMs: number;
  #isAlive = true;
  #workedMs = 0;

  /** @param lifeMs how long it works in all before it has to be replaced, in milliseconds */
  constructor(lifeMs = LIFE_MS) {
    this.#lifeMs = lifeMs;
    const [program, ...args] = limited(programCommand("images"), LIMITS);
    this.#child = new Deno.Command(program!, {
      args,
      cwd: startFolder(),
      clearEnv: true,
      env: harmlessEnvironment(),
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#output = this.#child.stdout.getReader({ mode: "byob" });
    // Whoever started it may end without waiting for it.
    this.#child.unref();
    this.#child.status.then(() => this.#isAlive = false);
  }

  /** Whether the process can take a task; if not, it is to be ended. */
  get isUsable(): boolean {
    return this.#isAlive && this.#workedMs < this.#lifeMs;
  }

  /** Does a task. A failure other than a {@link TaskError} ends the process. */
  async perform<Kind extends keyof ImageResults>(
    task: ImageTaskOf<Kind>,
    source: ImageSource,
    { timeoutMs, signal }: TaskLimits,
  ): Promise<{ result: ImageResults[Kind]; bytes: Uint8Array<ArrayBuffer> }> {
    signal?.throwIfAborted();
    const start = performance.now();
    const givenUp = Promise.withResolvers<never>();
    const giveUp = () => givenUp.reject(signal!.reason);
    const timer = setTimeout(
      () => givenUp.reject(new TimeLimitError(`it took more than ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
    signal?.addEventListener("abort", giveUp);
    this.#child.ref();
    try {
      const frame = await Promise.race([this.#exchange(task, source), givenUp.promise]);
      if ("error" in frame.message) {
        throw new TaskError(frame.message.error.name, frame.message.error.message);
      }
      return { result: frame.message.result as ImageResults[Kind], bytes: frame.bytes };
    } catch (error) {
      if (!(error instanceof TaskError)) this.end();
      throw error;
    } finally {
      this.#workedMs += performance.now() - start;
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
      this.#child.unref();
    }
  }

  /** Ends it, in the middle of a task where it has one. */
  end(): void {
    this.#isAlive = false;
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended by itself.
    }
    this.#input.abort().catch(() => {});
    this.#output.cancel().catch(() => {});
  }

  async #exchange(task: ImageTask, source: ImageSource) {
    try {
      await this.#send(task, source);
      const frame = await readFrame<ImageReply>((length) => this.#read(length));
      if (frame) return frame;
    } catch (cause) {
      if (cause instanceof Deno.errors.NotFound) throw cause;
      throw new ProcessEndedError("The process ended", { cause });
    }
    throw new ProcessEndedError("The process ended");
  }

  async #send(task: ImageTask, source: ImageSource): Promise<void> {
    if (source instanceof Uint8Array) {
      await this.#input.write(frameHead(task, source.length));
      return await this.#input.write(source as Uint8Array<ArrayBuffer>);
    }
    using file = await Deno.open(source.path);
    const { size } = await file.stat();
    await this.#input.write(frameHead(task, size));
    for await (const part of file.readable) await this.#input.write(part);
  }

  async #read(length: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { value, done } = await this.#output.read(new Uint8Array(length), { min: length });
    return done ? undefined : value;
  }
}
