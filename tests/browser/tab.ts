/** Scripts in a tab of a real browser, on a site as a static host has it. */
import { makeSite } from "../../tools/site.ts";
import { type BrowserName, programOf } from "../support/browsers.ts";

/** What Firefox is told, once for a profile: on Linux its WebGPU is off where the driver is software. */
const FIREFOX_SETTINGS: Readonly<Record<string, boolean>> = {
  "dom.webgpu.enabled": true,
  "dom.webgpu.workers.enabled": true,
  "gfx.webgpu.ignore-blocklist": true,
  "browser.shell.checkDefaultBrowser": false,
  "datareporting.policy.dataSubmissionEnabled": false,
  "app.update.enabled": false,
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
};

export interface Site extends AsyncDisposable {
  readonly url: string;
  /** Paths that were asked for, with the first byte of a range, in order. */
  readonly requests: string[];
  /** Serves bytes at a path, or what a function answers. */
  add(path: string, answer: Uint8Array<ArrayBuffer> | ((request: Request) => Response)): void;
  /** Kills the process that computes for the browser; false where it has none of its own. */
  killGpuProcess(): boolean;
  /** Has another server answer what the site lacks. */
  forward(origin: string): void;
  /** Runs the body of an async function in a new tab; gives what it returns, as JSON. */
  run(browser: BrowserName, script: string, options?: RunOptions): Promise<unknown>;
}

/** A test that needs a browser; a slow one runs with `DENOISE_SLOW` alone. */
export function browserTest(
  name: string,
  browser: BrowserName,
  fn: () => Promise<void>,
  isSlow = false,
): void {
  const ignore = programOf(browser) === undefined || isSlow && !Deno.env.has("DENOISE_SLOW");
  Deno.test({ name: isSlow ? `${name} (slow)` : name, ignore, fn });
}

interface RunOptions {
  readonly limitMs?: number;
}

let folder: Promise<string> | undefined;

/** The site, made once for all tests that run together. */
function siteFolder(): Promise<string> {
  return folder ??= (async () => {
    const made = await Deno.makeTempDir();
    await makeSite(made);
    return made;
  })();
}

Deno.test.afterAll(async () => {
  if (folder) await Deno.remove(await folder, { recursive: true });
});

export async function openSite(): Promise<Site> {
  const root = await siteFolder();
  const requests: string[] = [];
  let elsewhere: string | undefined;
  const added = new Map<string, Parameters<Site["add"]>[1]>();
  let finish: ((result: { value?: unknown; error?: string }) => void) | undefined;
  let script = "";
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/tab.html") {
      return new Response(pageOf(script), {
        headers: { "content-type": "text/html", "cache-control": "no-store" },
      });
    }
    if (pathname === "/tab-result") {
      finish?.(await request.json());
      return new Response();
    }
    requests.push(
      `${pathname} ${/\d+/.exec(request.headers.get("range") ?? "")?.[0] ?? ""}`.trim(),
    );
    const own = added.get(pathname);
    if (typeof own === "function") return own(request);
    const bytes = own ?? await Deno.readFile(root + pathname).catch(() => undefined);
    if (bytes) return ranged(request, bytes);
    if (elsewhere === undefined) return new Response(null, { status: 404 });
    const range = request.headers.get("range");
    const { search } = new URL(request.url);
    return await fetch(elsewhere + pathname + search, { headers: range ? { range } : {} });
  });
  const { port } = server.addr;
  const url = `http://127.0.0.1:${port}/`;
  const profiles: string[] = [];
  let running: Deno.ChildProcess | undefined;
  return {
    url,
    requests,
    add: (path, answer) => void added.set(path, answer),
    killGpuProcess: () => killGpuProcess(running!.pid),
    forward: (origin) => void (elsewhere = origin),
    async run(browser, body, { limitMs = 120_000 } = {}) {
      script = body;
      const profile = await Deno.makeTempDir();
      profiles.push(profile);
      const { promise, resolve } = Promise.withResolvers<{ value?: unknown; error?: string }>();
      finish = resolve;
      const child = running = await start(browser, profile, `${url}tab.html`);
      const timer = setTimeout(() => resolve({ error: `nothing came in ${limitMs} ms` }), limitMs);
      const { value, error } = await promise;
      clearTimeout(timer);
      await end(child);
      if (error !== undefined) throw new Error(`${browser}: ${error}`);
      return value;
    },
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      for (const made of profiles) await Deno.remove(made, { recursive: true }).catch(() => {});
    },
  };
}

function pageOf(script: string): string {
  return `<!doctype html><meta charset="utf-8"><script type="module">
const send = (result) => fetch("/tab-result", { method: "POST", body: JSON.stringify(result) });
addEventListener("error", (event) => send({ error: event.message }));
addEventListener("unhandledrejection", (event) => send({ error: String(event.reason?.stack ?? event.reason) }));
try {
  const value = await (async () => {${script}})();
  await send({ value: value ?? null });
} catch (error) {
  await send({ error: String(error?.stack ?? error).includes(error?.message) ? error.stack : error + error?.stack });
}
</script>`;
}

const TYPES: Readonly<Record<string, string>> = {
  ".js": "text/javascript",
  ".css": "text/css",
  ".html": "text/html",
};

function ranged(request: Request, bytes: Uint8Array<ArrayBuffer>): Response {
  const [, from, last] = /bytes=(\d+)-(\d*)/.exec(request.headers.get("range") ?? "") ?? [];
  const start = Number(from ?? NaN);
  const end = last ? Math.min(Number(last) + 1, bytes.length) : bytes.length;
  const ending = /\.\w+$/.exec(new URL(request.url).pathname)?.[0] ?? "";
  const type = TYPES[ending] ?? "application/octet-stream";
  const headers = { "content-type": type };
  if (Number.isNaN(start)) return new Response(bytes, { headers });
  return new Response(bytes.subarray(start, end), {
    status: 206,
    headers: { ...headers, "content-range": `bytes ${start}-${end - 1}/${bytes.length}` },
  });
}

async function start(
  browser: BrowserName,
  profile: string,
  url: string,
): Promise<Deno.ChildProcess> {
  const program = programOf(browser)!;
  if (browser === "firefox") {
    const lines = Object.entries(FIREFOX_SETTINGS)
      .map(([name, value]) => `user_pref("${name}", ${value});`);
    await Deno.writeTextFile(`${profile}/user.js`, lines.join("\n"));
  }
  const args = browser === "firefox" ? ["--headless", "--no-remote", "--profile", profile, url] : [
    ...["--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--no-first-run"],
    ...[`--user-data-dir=${profile}`, url],
  ];
  return new Deno.Command(program, {
    args,
    env: { HOME: profile, MOZ_DISABLE_CONTENT_SANDBOX: "1", MOZ_CRASHREPORTER_DISABLE: "1" },
    stdout: "null",
    stderr: "null",
  }).spawn();
}

/** Finds it below the browser, as Linux tells of processes. */
function killGpuProcess(browser: number): boolean {
  const parents = new Map<number, number>();
  const found: number[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const [, parent] = /\) \S (\d+)/.exec(Deno.readTextFileSync(`/proc/${name}/stat`))!;
      parents.set(Number(name), Number(parent));
      const isGpu = Deno.readTextFileSync(`/proc/${name}/cmdline`).includes("--type=gpu-process");
      if (isGpu) found.push(Number(name));
    } catch {
      // Processes end while they are listed.
    }
  }
  const isBelow = (id: number): boolean =>
    id === browser || parents.has(id) && isBelow(parents.get(id)!);
  const own = found.find(isBelow);
  if (own !== undefined) Deno.kill(own, "SIGKILL");
  return own !== undefined;
}

async function end(child: Deno.ChildProcess): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 5000);
  await child.status;
  clearTimeout(timer);
}
