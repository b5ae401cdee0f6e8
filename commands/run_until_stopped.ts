/** A server or a worker from its start to its end by a signal. */

import { once } from "node:events";
import {
  createLog,
  LineWriter,
  type Log,
  type LogFormat,
  type RunningServer,
} from "../server/mod.ts";
import { describeFailure, spellParts } from "./failure.ts";
import { StopSignals } from "./stop_signals.ts";

interface Listeners {
  readonly log: Log;
  /** Told when the server runs; its model may still be loading. */
  readonly onStart: (server: RunningServer) => void;
  readonly onReady: (server: RunningServer) => void;
  readonly onStop: () => void;
}

/** Runs a server or a worker until a signal comes, then closes it. */
export async function runUntilStopped(
  start: () => Promise<RunningServer>,
  { log, onStart, onReady, onStop }: Listeners,
): Promise<void> {
  using signals = new StopSignals();
  const stopped = once(signals.signal, "abort");
  const server = await start();
  onStart(server);
  outliveDefects(log);
  try {
    await Promise.race([server.ready, stopped]);
    if (!signals.signal.aborted) onReady(server);
    await stopped;
    onStop();
  } finally {
    await server.close().catch(async (error) => {
      log(describeFailure(error).sentence, { level: "error" });
      await signals.die();
    });
  }
}

/** What goes wrong outside of any request is told in the log and ends nothing. */
function outliveDefects(log: Log): void {
  const tell = (reason: unknown) =>
    log(`Error outside of any request: ${describeFailure(reason).sentence}`, { level: "error" });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    tell(event.error);
  });
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    tell(event.reason);
  });
}

export async function withLog<T>(format: LogFormat, run: (log: Log) => Promise<T>): Promise<T> {
  const writer = new LineWriter(
    (bytes) => Deno.stderr.write(bytes),
    (count) => log(`${count} lines of the log could not be written`, { level: "warning" }),
  );
  const log = createLog(format, (line) => writer.line(spellParts(line)));
  try {
    return await run(log);
  } finally {
    await writer.flush();
  }
}
