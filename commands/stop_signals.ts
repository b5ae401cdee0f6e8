/** Signals that ask a command to stop. */

const SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  // A closed console is SIGHUP there.
  ? ["SIGINT", "SIGBREAK", "SIGHUP"]
  : ["SIGINT", "SIGTERM"];

/** Heeds the first signal, and is ended by the second. */
export class StopSignals implements Disposable {
  readonly #controller = new AbortController();
  readonly #listeners = SIGNALS.map((signal) => [signal, () => this.#receive(signal)] as const);
  #first: Deno.Signal | undefined;

  constructor() {
    for (const [signal, listener] of this.#listeners) Deno.addSignalListener(signal, listener);
  }

  /** Fires with the first signal. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const [signal, listener] of this.#listeners) Deno.removeSignalListener(signal, listener);
    this.#listeners.length = 0;
  }

  /** Ends the process by the signal that came: an exit beside a GPU thread at work would crash in the driver's clean-up. */
  die(): Promise<never> {
    this[Symbol.dispose]();
    const signal = this.#first ?? "SIGTERM";
    Deno.kill(Deno.pid, Deno.build.os === "windows" ? "SIGKILL" : signal);
    // The signal takes a moment, in which nobody may exit.
    return new Promise(() => setInterval(() => {}, 1000));
  }

  #receive(signal: Deno.Signal): void {
    if (this.#first !== undefined) return void this.die();
    this.#first = signal;
    this.#controller.abort(new DOMException("Cancelled", "AbortError"));
  }
}
