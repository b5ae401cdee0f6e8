/** Asks a server for its health again and again, from a thread of its own, and says how long each answer took. */

/** Whom to ask. */
export interface HealthTarget {
  readonly url: string;
  readonly pid: number;
}

/** How long one answer took, in milliseconds. */
export interface HealthTimes {
  /** Milliseconds of a request as a client sees it. */
  readonly whole: number;
  /** Milliseconds without what the server's thread, or the one that asks, waited for a processor that others had. */
  readonly own: number;
}

const worker = self as unknown as {
  onmessage: (event: MessageEvent<HealthTarget>) => void;
  postMessage(times: HealthTimes): void;
};

worker.onmessage = async ({ data: { url, pid } }) => {
  const waited = () => waitedFor(`/proc/${pid}`) + waitedFor("/proc/thread-self");
  for (;;) {
    const [start, before] = [performance.now(), waited()];
    await fetch(`${url}/health`).then((response) => response.text()).catch(() => {});
    const whole = performance.now() - start;
    worker.postMessage({ whole, own: whole - (waited() - before) });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

/** Milliseconds that a thread was ready to run and did not. Source: Linux, `sched-stats`. */
function waitedFor(thread: string): number {
  try {
    return Number(Deno.readTextFileSync(`${thread}/schedstat`).split(" ")[1]) / 1e6;
  } catch {
    // It has ended.
    return 0;
  }
}
