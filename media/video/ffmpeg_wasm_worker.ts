/**
 * The worker side of `ffmpeg_wasm.ts`: one call, then it is done.
 *
 * @module
 */

import createFfmpegCore from "@ffmpeg/core";
import wasm from "@ffmpeg/core/wasm" with { type: "bytes" };
import { WASM_OUTPUT, WASM_STDIN, type WasmReply, type WasmRequest } from "./ffmpeg_wasm.ts";

/** The part of the Emscripten module that is used here. */
interface FfmpegCore {
  readonly FS: {
    writeFile(path: string, bytes: Uint8Array): void;
    readFile(path: string): Uint8Array<ArrayBuffer>;
    open(path: string, flags: string): unknown;
    write(stream: unknown, bytes: Uint8Array, offset: number, length: number): void;
    close(stream: unknown): void;
  };
  exec(...args: string[]): number;
  setLogger(logger: (line: { type: string; message: string }) => void): void;
}

const worker = self as unknown as {
  onmessage: (event: MessageEvent<WasmRequest>) => void;
  postMessage(reply: WasmReply, transfer?: Transferable[]): void;
};
const create = createFfmpegCore as (options: { wasmBinary: Uint8Array }) => Promise<FfmpegCore>;
const core = create({ wasmBinary: wasm });
const said: string[] = [];
let inputs = 0;
let stdin: unknown;

// One message after the other, though the first has to wait for the core.
let queue: Promise<void> = Promise.resolve();
worker.onmessage = ({ data }) => {
  queue = queue.then(async () => handle(await core, data)).catch((error) => fail(String(error)));
};

function handle(core: FfmpegCore, request: WasmRequest): void {
  const { FS } = core;
  switch (request.kind) {
    case "input":
      return FS.writeFile(`/input${inputs++}`, request.bytes);
    case "write":
      stdin ??= FS.open(WASM_STDIN, "w");
      return FS.write(stdin, request.bytes, 0, request.bytes.length);
    case "run": {
      if (stdin) FS.close(stdin);
      core.setLogger(({ message }) => said.push(message));
      const status = core.exec("-hide_banner", "-loglevel", "error", ...request.args);
      if (status !== 0) return fail("");
      const bytes = FS.readFile(WASM_OUTPUT);
      worker.postMessage({ kind: "done", bytes }, [bytes.buffer]);
    }
  }
}

function fail(message: string): void {
  worker.postMessage({ kind: "failed", said: [...said, message].join("\n") });
}
