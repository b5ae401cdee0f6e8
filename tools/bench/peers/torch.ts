/** PyTorch on the CPU, in a process of its own: a yardstick from outside of WebGPU. */

import { fileURLToPath } from "node:url";
import type { OpCase } from "./cases.ts";
import { TORCH_NAME } from "./names.ts";
import type { Contender, PreparedOp } from "./contender.ts";

const PROGRAM = fileURLToPath(new URL("../../reference/torch_ops.py", import.meta.url));

/**
 * Starts it.
 *
 * @throws {Error} where `python3` has no torch
 */
export async function openTorch(): Promise<Contender> {
  const child = await startPython();
  const input = child.stdin.getWriter();
  const output = new ByteReader(child.stdout);
  const ask = async (request: object, values: readonly Float32Array[] = []) => {
    await input.write(new TextEncoder().encode(`${JSON.stringify(request)}\n`));
    for (const each of values) {
      await input.write(new Uint8Array(each.buffer, each.byteOffset, each.byteLength));
    }
    return JSON.parse(new TextDecoder().decode(await output.line())) as { bytes: number };
  };
  return {
    name: TORCH_NAME,
    async prepare(op: OpCase, inputs: readonly Float32Array[]): Promise<PreparedOp> {
      await ask({ do: "prepare", op: op.op, inputs: op.inputs }, inputs);
      return {
        copies: 1,
        run: async (times) => void await ask({ do: "run", times }),
        async result() {
          const { bytes } = await ask({ do: "result" });
          return new Float32Array((await output.take(bytes)).buffer);
        },
        destroy: async () => void await ask({ do: "forget" }),
      };
    },
    async close() {
      await input.close();
      await child.status;
    },
  };
}

async function startPython() {
  const missing = new Error("`python3` is not there or cannot import torch");
  const run = (args: string[]) => new Deno.Command("python3", { args, stderr: "null" });
  try {
    const { success } = await run(["-c", "import torch"]).output();
    if (!success) throw missing;
    const python = new Deno.Command("python3", {
      args: [PROGRAM],
      stdin: "piped",
      stdout: "piped",
    });
    return python.spawn();
  } catch (error) {
    throw error instanceof Deno.errors.NotFound ? missing : error;
  }
}

/** Takes lines and blocks off a stream. */
class ByteReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
  #held = new Uint8Array();

  constructor(stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
    this.#reader = stream.getReader();
  }

  /** Bytes up to the next line feed. */
  async line(): Promise<Uint8Array<ArrayBuffer>> {
    while (!this.#held.includes(10)) await this.#more();
    return (await this.take(this.#held.indexOf(10) + 1)).subarray(0, -1);
  }

  async take(count: number): Promise<Uint8Array<ArrayBuffer>> {
    const result = new Uint8Array(count);
    let filled = 0;
    while (filled < count) {
      if (this.#held.length === 0) await this.#more();
      const part = this.#held.subarray(0, count - filled);
      result.set(part, filled);
      filled += part.length;
      this.#held = this.#held.subarray(part.length);
    }
    return result;
  }

  async #more(): Promise<void> {
    const { value, done } = await this.#reader.read();
    if (done) throw new Error("Cannot go on with torch: its process ended");
    const joined = new Uint8Array(this.#held.length + value.length);
    joined.set(this.#held);
    joined.set(value, this.#held.length);
    this.#held = joined;
  }
}
