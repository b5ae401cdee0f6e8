/** Lines that a user types, or that a file or another program gives. */

import process from "node:process";
import { createInterface } from "node:readline";

const MAX_HISTORY = 1000;

/** The lines of standard input; a terminal is asked for each, with its earlier ones by the arrow keys. */
export async function* promptLines(question: string): AsyncGenerator<string> {
  if (!Deno.stdin.isTerminal()) {
    yield* createInterface({ input: process.stdin });
    return;
  }
  let history: string[] = [];
  for (;;) {
    const line = await ask(question, history, (all) => history = all);
    if (line === undefined) return;
    yield line;
  }
}

/** One line; undefined for Ctrl-D and Ctrl-C. The terminal is the line's alone, so that Ctrl-C is a signal while work is done. */
function ask(
  question: string,
  history: string[],
  onHistory: (history: string[]) => void,
): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const terminal = createInterface({
    input: process.stdin,
    output: process.stderr,
    terminal: true,
    historySize: MAX_HISTORY,
    history: [...history],
  });
  terminal.on("history", (all) => onHistory([...all]));
  terminal.on("SIGINT", () => terminal.close());
  terminal.once("close", () => resolve(undefined));
  terminal.question(question, (line) => {
    resolve(line);
    terminal.close();
  });
  return promise;
}
