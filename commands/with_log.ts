import { spellParts } from "./failure.ts";
import { createLog, LineWriter, type Log, type LogFormat } from "../server/mod.ts";

/** Lets a command that goes on for long write a log to standard error. */
export async function withLog<T>(
  format: LogFormat,
  run: (log: Log) => Promise<T>,
): Promise<T> {
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
