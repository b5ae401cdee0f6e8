/**
 * The gate: every check a change must pass, in one command (`./denoise test`, `deno task ok`).
 *
 * Prints each stage with its time, a stage's output only where it fails, and as the last line
 * `N passed, N failed` (and `, N skipped`): the tests, with every other stage counted as one.
 * With paths (relative to the repository), only the tests under them run; `--verbose` lets all
 * output through.
 */

/** The folder of the repository. */
const ROOT = new URL("../", import.meta.url);

/** How many checks passed, failed and were skipped. */
export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

interface Stage {
  name: string;
  args: string[];
}

/** Entry points whose every export must have a documented, explicit type. */
const DOCUMENTED = ["mod.ts", "runtime/mod.ts"];

const STAGES: Stage[] = [
  { name: "format", args: ["fmt", "--check"] },
  { name: "lint", args: ["lint"] },
  { name: "types", args: ["check", "--quiet", "."] },
  { name: "docs", args: ["doc", "--lint", ...DOCUMENTED] },
];

// Types are a stage of their own, so the tests start without checking them a second time.
const TESTS = ["test", "-A", "--no-check"];

/**
 * Reads what `deno test` printed, without colours.
 *
 * A run that ends without a summary (a crash of the process, a module that does not load) or that
 * fails with no test to blame counts as one failure.
 */
export function countTests(output: string, code: number): Counts {
  const pattern =
    /^(?:ok|FAILED) \| (\d+) passed\b.*?\| (\d+) failed\b(?:.*?\| (\d+) ignored\b)?/gm;
  const summary = [...output.matchAll(pattern)].at(-1);
  const [passed, failed, skipped] = [1, 2, 3].map((group) => Number(summary?.[group] ?? 0));
  const blamed = failed ?? 0;
  return {
    passed: passed ?? 0,
    failed: code !== 0 || summary === undefined ? Math.max(1, blamed) : blamed,
    skipped: skipped ?? 0,
  };
}

/** The last line of a run. */
export function countsLine({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed` + (skipped > 0 ? `, ${skipped} skipped` : "");
}

/** The part of a failed test run worth reading: from the list of errors on, if there is one. */
export function failureText(output: string): string {
  const start = output.search(/^ ERRORS *$/m);
  return (start < 0 ? output : output.slice(start)).trimEnd();
}

async function runDeno(
  args: string[],
  verbose: boolean,
): Promise<{ code: number; output: string }> {
  // Deno started through another loader is not its own executable: the launcher tells where it is.
  const deno = Deno.env.get("DENOISE_DENO") ?? Deno.execPath();
  const child = new Deno.Command(deno, {
    args,
    cwd: ROOT,
    // What was measured on this machine must not change what is tested.
    env: { NO_COLOR: "1", RUST_BACKTRACE: "0", DENOISE_CACHE: "off", ...gpuEnvironment() },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (verbose) await Deno.stdout.write(new TextEncoder().encode(text));
    }
  };
  const [status] = await Promise.all([
    child.status,
    collect(child.stdout),
    collect(child.stderr),
  ]);
  return { code: status.code, output };
}

/** The backend the launcher would choose, for runs that did not come through it. */
function gpuEnvironment(): Record<string, string> {
  const chosen = Deno.env.has("DENO_WEBGPU_BACKEND") || Deno.build.os !== "linux";
  return chosen ? {} : { DENO_WEBGPU_BACKEND: "vulkan" };
}

function report(name: string, failed: boolean, since: number, detail = ""): void {
  const seconds = ((performance.now() - since) / 1000).toFixed(1);
  console.log(`${failed ? "FAILED" : "ok    "} ${name} (${seconds} s)${detail}`);
}

async function main(args: string[]): Promise<number> {
  const verbose = args.includes("--verbose");
  const paths = args.filter((arg) => arg !== "--verbose");
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };

  for (const stage of paths.length > 0 ? [] : STAGES) {
    const since = performance.now();
    const { code, output } = await runDeno(stage.args, verbose);
    report(stage.name, code !== 0, since);
    if (code === 0) total.passed++;
    else {
      total.failed++;
      if (!verbose) console.log(output.trimEnd());
    }
  }

  const since = performance.now();
  const { code, output } = await runDeno([...TESTS, ...paths], verbose);
  const tests = countTests(output, code);
  report("tests", tests.failed > 0, since, `: ${countsLine(tests)}`);
  if (tests.failed > 0 && !verbose) console.log(failureText(output));
  total.passed += tests.passed;
  total.failed += tests.failed;
  total.skipped += tests.skipped;

  console.log(countsLine(total));
  return total.failed > 0 ? 1 : 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
