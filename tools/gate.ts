/**
 * The gate: every check a change must pass, in one command (`./denoise test`, `deno task ok`).
 *
 * Prints each stage with its time and a stage's output only where it fails; while the tests run, how
 * far they are; after them, which took longest. The last line is `N passed, N failed` (and
 * `, N skipped`): the tests, with every other stage counted as one. With paths (relative to the
 * repository), only the tests under them run; `--verbose` lets all output through.
 */
import { join } from "node:path";

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
const DOCUMENTED = ["mod.ts", "server/mod.ts", "runtime/mod.ts"];

const STAGES: Stage[] = [
  { name: "format", args: ["fmt", "--check"] },
  { name: "lint", args: ["lint"] },
  { name: "types", args: ["check", "--quiet", "."] },
  { name: "docs", args: ["doc", "--lint", ...DOCUMENTED] },
];

// Types are a stage of their own, so the tests start without checking them a second time.
const TESTS = ["test", "-A", "--no-check"];

/** How often a run says how far it is, in milliseconds, and how many of the slowest tests it names. */
const PROGRESS_MS = 15_000;
const SLOWEST = 10;

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

/** How far the tests are, from what `deno test` has printed so far. */
export function progressText(output: string): string {
  const started = [...output.matchAll(/^running \d+ tests? from (?:\.\/)?(\S+)$/gm)];
  const passed = output.match(/^\S.* \.\.\. ok \(|^ ok \(/gm)?.length ?? 0;
  const failed = output.match(/^\S.* \.\.\. FAILED \(|^ FAILED \(/gm)?.length ?? 0;
  const [, path] = started.at(-1) ?? [];
  return `${passed} passed, ${failed} failed, file ${started.length}` + (path ? `: ${path}` : "");
}

/** One test, and the seconds that it took. */
interface TestTime {
  title: string;
  /** Its file. */
  path: string;
  seconds: number;
}

/** The tests that took longest, slowest first, from a report in JUnit's format; steps are part of their test. */
export function slowestTests(report: string, count: number): TestTime[] {
  const pattern = /<testcase name="([^"]*)" classname="([^"]*)" time="([\d.]+)"/g;
  const cases = [...report.matchAll(pattern)]
    .map(([, title, path, seconds]) => ({
      title: unescapeXml(title!),
      path: path!.replace(/^\.\//, ""),
      seconds: Number(seconds),
    }));
  const titles = new Set(cases.map(({ title }) => title));
  const isStep = ({ title }: TestTime) =>
    [...title.matchAll(/ > /g)].some(({ index }) => titles.has(title.slice(0, index)));
  return cases.filter((each) => !isStep(each))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, count);
}

function unescapeXml(text: string): string {
  const entities: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(/&(\w+);/g, (whole, name) => entities[name] ?? whole);
}

async function runDeno(
  args: string[],
  verbose: boolean,
  onOutput?: (output: string) => void,
): Promise<{ code: number; output: string }> {
  // Deno started through another loader is not its own executable: the launcher tells where it is.
  const deno = Deno.env.get("DENOISE_DENO") ?? Deno.execPath();
  const child = new Deno.Command(deno, {
    args,
    cwd: ROOT,
    // What was measured on this machine must not change what is tested.
    env: { NO_COLOR: "1", RUST_BACKTRACE: "0", DENOISE_CACHE: "off", ...driverEnvironment() },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      output += text;
      onOutput?.(output);
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

/** What chooses the driver, and how it works, where the caller has not said it. */
function driverEnvironment(): Record<string, string> {
  if (Deno.build.os !== "linux") return {};
  const defaults = {
    // As the launcher chooses it, for runs that did not come through it.
    DENO_WEBGPU_BACKEND: "vulkan",
    // Tests compile kernels for longer than they run them: Mesa's software driver need not optimise.
    GALLIVM_PERF: "nopt",
  };
  return Object.fromEntries(Object.entries(defaults).filter(([name]) => !Deno.env.has(name)));
}

/** The tests under paths, with a line every few seconds on how far they are. */
async function runTests(paths: readonly string[], verbose: boolean) {
  const folder = await Deno.makeTempDir();
  const junit = join(folder, "report.xml");
  const since = performance.now();
  const seconds = () => Math.round((performance.now() - since) / 1000);
  let printed = "";
  const progress = setInterval(() => {
    console.log(`       ${String(seconds()).padStart(5)} s  ${progressText(printed)}`);
  }, PROGRESS_MS);
  try {
    const args = [...TESTS, `--junit-path=${junit}`, ...paths];
    const { code, output } = await runDeno(args, verbose, (output) => printed = output);
    const tests = countTests(output, code);
    report("tests", tests.failed > 0, since, `: ${countsLine(tests)}`);
    if (tests.failed > 0 && !verbose) console.log(failureText(output));
    // There is no report of a process that died.
    const slowest = slowestTests(await Deno.readTextFile(junit).catch(() => ""), SLOWEST);
    if (slowest.length > 0) console.log("       The slowest:");
    for (const { title, path, seconds } of slowest) {
      console.log(`       ${seconds.toFixed(1).padStart(5)} s  ${path}: ${title}`);
    }
    return tests;
  } finally {
    clearInterval(progress);
    await Deno.remove(folder, { recursive: true });
  }
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

  const tests = await runTests(paths, verbose);
  total.passed += tests.passed;
  total.failed += tests.failed;
  total.skipped += tests.skipped;

  console.log(countsLine(total));
  return total.failed > 0 ? 1 : 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
