/** What Node 24 and Bun lack of the web and of the language, and where Dawn is; imported before all else. */
import { Buffer } from "node:buffer";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import process from "node:process";
import { type MessagePort, parentPort, Worker as Thread } from "node:worker_threads";

const scope = globalThis as unknown as Record<string, unknown> & {
  onmessage?: (event: { data: unknown }) => void;
};

// Node 25, Bun and browsers have all of these.
const Bytes = Uint8Array as unknown as {
  fromBase64?(text: string): Uint8Array;
  readonly prototype: { toBase64?(): string; toHex?(): string };
};
Bytes.fromBase64 ??= (text) => new Uint8Array(Buffer.from(text, "base64"));
Bytes.prototype.toBase64 ??= function (this: Uint8Array) {
  return Buffer.from(this).toString("base64");
};
Bytes.prototype.toHex ??= function (this: Uint8Array) {
  return Buffer.from(this).toString("hex");
};
const prototypes = [Map.prototype, WeakMap.prototype] as unknown as Map<unknown, unknown>[];
for (const prototype of prototypes) {
  prototype.getOrInsertComputed ??= function (this: Map<unknown, unknown>, key, make) {
    if (!this.has(key)) this.set(key, make(key));
    return this.get(key);
  };
  prototype.getOrInsert ??= function (this: Map<unknown, unknown>, key, value) {
    return this.getOrInsertComputed(key, () => value);
  };
}

if (process.env["DENOISE_DAWN"] === undefined) {
  try {
    process.env["DENOISE_DAWN"] = dirname(
      createRequire(import.meta.url).resolve("webgpu/package.json"),
    );
  } catch {
    // Opening a GPU says how to get it.
  }
}

/** The web's worker, as far as the engine uses it, on a thread of Node's. */
class NodeWorker {
  onmessage?: (event: { data: unknown }) => void;
  onerror?: (event: { message: string; preventDefault(): void }) => void;
  readonly #thread: Thread;

  constructor(url: URL) {
    this.#thread = new Thread(url);
    this.#thread.on("message", (data) => this.onmessage?.({ data }));
    this.#thread.on("error", ({ message }) => this.onerror?.({ message, preventDefault() {} }));
  }

  /** Node gives a message its ports only within it. */
  postMessage(data: unknown, ports: MessagePort[] = []): void {
    this.#thread.postMessage({ data, ports }, ports);
  }

  terminate(): void {
    void this.#thread.terminate();
  }
}

if (!("Worker" in scope)) {
  scope["Worker"] = NodeWorker;
  if (parentPort) {
    const port = parentPort;
    const events = new EventTarget();
    scope["self"] = globalThis;
    scope["postMessage"] = (data: unknown, transfer?: ArrayBuffer[]) =>
      port.postMessage(data, transfer);
    scope["close"] = () => port.close();
    scope["addEventListener"] = events.addEventListener.bind(events);
    port.on("message", ({ data, ports }) => {
      events.dispatchEvent(new MessageEvent("message", { data, ports }));
      scope.onmessage?.({ data });
    });
  }
}
