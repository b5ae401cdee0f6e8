/** `denoise serve` as a process of its own. */

import { fileURLToPath } from "node:url";

const ROOT = new URL("../../", import.meta.url);

/** What Deno runs the program with; `tools/test_platforms.ts` has it load a module first. */
export const DENO_RUN: readonly string[] = [
  ...["run", "-A", "--no-check"],
  ...(Deno.env.has("DENOISE_TEST_PRELOAD")
    ? ["--preload", Deno.env.get("DENOISE_TEST_PRELOAD")!]
    : []),
];

/** Whether a process can be asked to end; on Windows it is ended. */
export const HAS_SIGTERM: boolean = Deno.build.os !== "windows";

/** A server that answers. */
export interface ServerProcess extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** Standard error so far. */
  log(): string;
  /** Sends a signal, and waits for the end. */
  end(signal: Deno.Signal): Promise<Deno.CommandStatus>;
}

/** What the log says when a server can be talked to, and when its model is loaded. */
const LISTENING = /Listening on (http:[\w.:/]+),/;
const READY = /Ready: .+ is served on (http:[\w.:/]+)/;

/**
 * Starts a server in a folder and waits until its model is loaded.
 *
 * @param folder working directory: relative paths of flags, and the default ones, lead into it
 * @param args flags of `serve`; the port is any that is free
 * @param isLoading whether to wait for no more than that it listens
 */
export async function startProcess(
  folder: string,
  args: readonly string[] = [],
  env: Record<string, string> = {},
  isLoading = false,
): Promise<ServerProcess> {
  const config = fileURLToPath(new URL("deno.json", ROOT));
  const cli = fileURLToPath(new URL("cli.ts", ROOT));
  const child = new Deno.Command(Deno.execPath(), {
    args: [...DENO_RUN, "--config", config, cli, "serve", "--port", "0", ...args],
    cwd: folder,
    env: { NO_COLOR: "1", ...env },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let log = "";
  const ready = Promise.withResolvers<string>();
  const reading = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      log += text;
      const url = (isLoading ? LISTENING : READY).exec(log)?.[1];
      if (url) ready.resolve(url);
    }
    ready.reject(new Error(`Cannot go on: the server ended\n${log}`));
  })();
  const end = async (signal: Deno.Signal) => {
    try {
      child.kill(signal);
    } catch {
      // It has ended already.
    }
    await reading;
    return await child.status;
  };
  try {
    const url = await ready.promise;
    return {
      url,
      pid: child.pid,
      log: () => log,
      end,
      [Symbol.asyncDispose]: async () => void await end("SIGKILL"),
    };
  } catch (error) {
    await end("SIGKILL");
    throw error;
  }
}

/** Sends a JSON body. */
export async function postJson(url: string, body: unknown): Promise<Response> {
  return await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}
