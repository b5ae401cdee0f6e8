/**
 * FFmpeg as a program of this machine.
 *
 * @module
 */

import { type Ffmpeg, type FfmpegCall, ffmpegError, type FfmpegSink } from "./ffmpeg.ts";

/** What is kept of standard error, in characters. */
const KEPT_MESSAGES = 8192;

/** The system's `ffmpeg`. */
export class SystemFfmpeg implements Ffmpeg {
  /** For people: version and kind. */
  readonly description: string;
  readonly #program: string;

  private constructor(program: string, version: string) {
    this.#program = program;
    this.description = `ffmpeg ${version}, of this system`;
  }

  /**
   * Looks whether a program is there and can encode H.264.
   *
   * @param program its name or path
   * @returns nothing when it is absent or lacks libx264
   */
  static async find(program: string): Promise<SystemFfmpeg | undefined> {
    const run = async (...args: string[]) => {
      const { success, stdout } = await new Deno.Command(program, {
        args,
        stdin: "null",
        stderr: "null",
      }).output();
      return success ? new TextDecoder().decode(stdout) : "";
    };
    try {
      const version = /^ffmpeg version (\S+)/.exec(await run("-version"))?.[1];
      const hasX264 = (await run("-hide_banner", "-encoders")).includes(" libx264 ");
      return version && hasX264 ? new SystemFfmpeg(program, version) : undefined;
    } catch {
      return undefined;
    }
  }

  /** See {@link Ffmpeg.encode}. */
  encode(call: FfmpegCall, output: string): FfmpegSink {
    const { child, ended } = this.#start(call, `file:${output}`);
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
    const { child, ended, kill } = this.#start(call, "pipe:1");
    void child.stdin.close();
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

  #start(call: FfmpegCall, output: string) {
    const { signal } = call;
    signal?.throwIfAborted();
    const args = call.arguments({
      // The prefix keeps a name with a colon from being read as a protocol.
      inputs: call.inputs.map((path) => `file:${path}`),
      stdin: "pipe:0",
      output,
    });
    const child = new Deno.Command(this.#program, {
      args: ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...args],
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
    signal?.addEventListener("abort", kill);
    const messages = lastOf(child.stderr);
    const ended = async () => {
      const [{ success }, said] = await Promise.all([child.status, messages]);
      signal?.removeEventListener("abort", kill);
      signal?.throwIfAborted();
      if (!success) throw ffmpegError(said);
    };
    return { child, ended, kill };
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
