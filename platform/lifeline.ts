/**
 * Noticing that a thread has ended, however it did, and waiting until it has. Deno tells of errors alone; but a message
 * port closes when the thread that holds its other end is gone.
 *
 * A thread that is terminated unloads its GPU driver by and by. A process that exits meanwhile runs the driver's own
 * clean-up beside that, and crashes: whoever ends a thread has to wait for it.
 */
import { existsSync, readlinkSync } from "node:fs";
import { MessageChannel, type MessagePort } from "node:worker_threads";

export interface LifelineMessage {
  readonly type: "lifeline";
}

/** How often it is looked whether a thread is gone, in milliseconds. */
const POLL_MS = 2;
/** How long a thread may still be at work after its port closed, where that cannot be seen. */
const UNSEEN_MS = 50;

export class Lifeline {
  readonly #port: MessagePort;
  /** Where Linux shows the thread; none until told, or where there is no such thing. */
  #path: string | undefined;
  /** When the port closed, by `performance.now()`. */
  #closed: number | undefined;

  /** @param onEnd called when it has ended, by itself or because it was terminated */
  constructor(worker: Worker, onEnd: () => void) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.on("message", ({ path }: ThreadMessage) => this.#path = path);
    port1.on("close", () => {
      this.#closed = performance.now();
      onEnd();
    });
    // It alone shall not keep the process.
    port1.unref();
    // A port of Node's is one of the web's, too, but has other types.
    const transfer = [port2 as unknown as Transferable];
    worker.postMessage({ type: "lifeline" } satisfies LifelineMessage, transfer);
  }

  /** Waits until the thread is gone, with all that it had loaded. */
  async ended(limitMs: number): Promise<boolean> {
    for (const end = performance.now() + limitMs; !this.#isGone();) {
      if (performance.now() > end) return false;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    this.#port.close();
    return true;
  }

  #isGone(): boolean {
    if (this.#closed === undefined) return false;
    if (this.#path !== undefined) return !existsSync(this.#path);
    return performance.now() > this.#closed + UNSEEN_MS;
  }
}

interface ThreadMessage {
  readonly path: string;
}

/** Lines of the calling thread: a port that nothing holds is closed. */
const held: unknown[] = [];

/** Holds the line of the thread that calls this, from its start to its end. */
export function holdLifeline(): void {
  self.addEventListener("message", (event) => {
    const { data, ports } = event as MessageEvent;
    if ((data as LifelineMessage).type !== "lifeline") return;
    const port: { postMessage(message: ThreadMessage): void } = ports[0]!;
    held.push(port);
    const path = threadPath();
    if (path !== undefined) port.postMessage({ path });
  });
}

/** Where Linux shows the calling thread as long as it is there. */
function threadPath(): string | undefined {
  try {
    return `/proc/${readlinkSync("/proc/thread-self")}`;
  } catch {
    return undefined;
  }
}
