/**
 * The gate: every check a change must pass, in one command (`./denoise test`, `deno task ok`).
 *
 * Prints each stage with its time and a stage's output only where it fails; while the tests run, how
 * far they are; after them, which took longest. The last line is `N passed, N failed` (and
 * `, N skipped`): the tests, with every other stage counted as one. With paths (relative to the
 * repository), only the tests under them run; with `--changed [REF]`, only those that a change since
 * REF (`main` by default) can reach; `--verbose` lets all output through.
 *
 * The tests run in batches of files, two batches at a time, each in a process of its own: a software
 * driver compiles on one core, and tests may change what belongs to a process. Most files of a batch
 * are imported by one module, so that they load the library and compile kernels once.
 */
import { join } from "node:path";
import { testsOfChange } from "./changed_tests.ts";
import { DENO, exists, listTree, ROOT } from "./root.ts";

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/** The line with which `deno test` ends. */
const SUMMARY = /^(?:ok|FAILED) \| (\d+) passed\b.*?\| (\d+) failed\b(?:.*?\| (\d+) ignored\b)?/m;

interface Stage {
  name: string;
  args: string[];
}

/** Entry points whose every export must have a documented, explicit type. */
const DOCUMENTED = ["mod.ts", "server/mod.ts", "runtime/mod.ts", "browser/mod.ts", "client/mod.ts"];

const STAGES: Stage[] = [
  { name: "format", args: ["fmt", "--check"] },
  { name: "lint", args: ["lint"] },
  { name: "types", args: ["check", "--quiet", "."] },
  { name: "docs", args: ["doc", "--lint", ...DOCUMENTED] },
];

// Types are a stage of their own, so the tests start without checking them a second time.
const TESTS = ["test", "-A", "--no-check"];

/** Files of a batch, and batches that run at a time. */
const BATCH = 16;
const JOBS = 2;

/** How often a run says how far it is, in milliseconds, and how many of the slowest tests it names. */
const PROGRESS_MS = 15_000;
const SLOWEST = 10;

/** Reads the output of `deno test`; a crash, or a failure with no test to blame, counts as one failure. */
export function countTests(output: string, code: number): Counts {
  const summary = [...output.matchAll(new RegExp(SUMMARY, "gm"))].at(-1);
  const [passed, failed, skipped] = [1, 2, 3].map((group) => Number(summary?.[group] ?? 0));
  const blamed = failed ?? 0;
  return {
    passed: passed ?? 0,
    failed: code !== 0 || summary === undefined ? Math.max(1, blamed) : blamed,
    skipped: skipped ?? 0,
  };
}

export function countsLine({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed` + (skipped > 0 ? `, ${skipped} skipped` : "");
}

/** The part of a failed test run worth reading: from the list of errors on, if there is one. */
export function failureText(output: string): string {
  const start = output.search(/^ ERRORS *$/m);
  return (start < 0 ? output : output.slice(start)).trimEnd();
}

/** How far the tests are, from what every `deno test` has printed so far, and the last test of each that is at work. */
export function progressText(outputs: readonly string[], batches: number): string {
  const count = (pattern: RegExp) =>
    outputs.reduce((sum, output) => sum + (output.match(pattern)?.length ?? 0), 0);
  const title = /^(\S.*?) \.\.\./gm;
  const current = outputs
    .filter((output) => !SUMMARY.test(output))
    .flatMap((output) => [...output.matchAll(title)].at(-1)?.[1] ?? []);
  const passed = count(/^\S.* \.\.\. ok \(|^ ok \(/gm);
  const failed = count(/^\S.* \.\.\. FAILED \(|^ FAILED \(/gm);
  const started = outputs.filter((output) => /^running \d+ tests? from /m.test(output)).length;
  return `${passed} passed, ${failed} failed, batch ${started} of ${batches}` +
    (current.length > 0 ? `: ${current.join("; ")}` : "");
}

interface TestTime {
  title: string;
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
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number; output: string }> {
  const child = new Deno.Command(DENO, {
    args,
    cwd: ROOT,
    // What was measured on this machine must not change what is tested.
    env: {
      NO_COLOR: "1",
      RUST_BACKTRACE: "0",
      DENOISE_CACHE: "off",
      DENOISE_NO_SERVER: "true",
      ...defaults(DRIVER),
      ...env,
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  const collect = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => {
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

/** The driver, as the launcher chooses it, for runs that did not come through it. */
const DRIVER = { DENO_WEBGPU_BACKEND: "vulkan" };

/** For tests that compile many kernels and hardly run them: Mesa's software driver need not optimise. */
const UNOPTIMISED = { GALLIVM_PERF: "nopt" };
const isCompiling = (path: string) =>
  /^runtime\/|\/(?:single_files|inspect|saturation)_test\.ts$/.test(path);

/** Waking the driver's threads costs small models more than they compute; ops need them to show races of workgroups. */
const ONE_THREAD = { LP_NUM_THREADS: "0" };
const wantsThreads = (path: string) => path.startsWith("runtime/ops/");

/** Variables of drivers on Linux, where the caller has not said them. */
function defaults(variables: Readonly<Record<string, string>>): Record<string, string> {
  if (Deno.build.os !== "linux") return {};
  return Object.fromEntries(Object.entries(variables).filter(([name]) => !Deno.env.has(name)));
}

/** Cuts files into batches, in their order; those that compile most come first, so that none of them is left at the end. */
export function batchesOf(files: readonly string[]): string[][] {
  const { compiling = [], others = [] } = Object.groupBy(
    files,
    (path) => isCompiling(path) ? "compiling" : "others",
  );
  return [compiling, others].flatMap((group) =>
    Array.from(
      { length: Math.ceil(group.length / BATCH) },
      (_, i) => group.slice(i * BATCH, (i + 1) * BATCH),
    )
  );
}

/** Tests of what belongs to a process or to globals: each is loaded by itself, beside others of its batch. */
const ALONE =
  /^(?:commands|engine|runtime\/device\/backends|tests\/(?:bad_input|clients|e2e|fleet|house|playground))\/|^tests\/[^/]+$/;

/** A module that imports test files, one after the other; a file that does not load is a test that fails. */
export function batchModule(files: readonly string[]): string {
  const modules = files.map((path) => [path, new URL(path, ROOT).href]);
  return `for (const [path, url] of ${JSON.stringify(modules)}) {
  await import(url).catch((error) => Deno.test(path + " loads", () => Promise.reject(error)));
}
`;
}

/** Every test file at or under paths; those in `tests/`, which take longest, first. */
function testFiles(paths: readonly string[]): string[] {
  const found = (paths.length > 0 ? paths : [""]).flatMap((path) => {
    if (!exists(path)) throw new Error(`Cannot test ${path}: there is no such file or folder`);
    const place = decodeURIComponent(new URL(path, ROOT).href.slice(ROOT.href.length));
    return /\.tsx?$/.test(place) ? [place] : listTree(place, ["_test.ts"]);
  });
  if (found.length === 0) throw new Error(`Cannot test ${paths.join(", ")}: there are no tests`);
  return [...new Set(found)].sort().reverse();
}

/** The tests under paths, with a line every few seconds on how far they are. */
async function runTests(paths: readonly string[], verbose: boolean): Promise<Counts> {
  const batches = batchesOf(testFiles(paths));
  const count = batches.length;
  const folder = await Deno.makeTempDir();
  const drawn = join(folder, "weights");
  await Deno.mkdir(drawn);
  const since = performance.now();
  const seconds = () => Math.round((performance.now() - since) / 1000);
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  const printed: string[] = [];
  const slowest: TestTime[] = [];
  const runBatch = async (batch: readonly string[]) => {
    const i = printed.push("") - 1;
    const junit = join(folder, `${i}.xml`);
    const { alone = [], together } = Object.groupBy(
      batch,
      (path) => ALONE.test(path) ? "alone" : "together",
    );
    const modules = [...alone];
    if (together) {
      modules.unshift(join(folder, `batch${i}_test.ts`));
      await Deno.writeTextFile(modules[0]!, batchModule(together));
    }
    const args = [...TESTS, "--config=deno.json", `--junit-path=${junit}`, ...modules];
    const env = {
      DENOISE_DRAWN_WEIGHTS: drawn,
      ...(batch.every(isCompiling) ? defaults(UNOPTIMISED) : {}),
      ...(batch.some(wantsThreads) ? {} : defaults(ONE_THREAD)),
    };
    const { code, output } = await runDeno(args, verbose, (output) => printed[i] = output, env);
    const counts = countTests(output, code);
    for (const key of ["passed", "failed", "skipped"] as const) total[key] += counts[key];
    if (counts.failed > 0 && !verbose) console.log(failureText(output));
    // There is no report of a process that died.
    slowest.push(...slowestTests(await Deno.readTextFile(junit).catch(() => ""), SLOWEST));
  };
  const progress = setInterval(() => {
    console.log(`       ${String(seconds()).padStart(5)} s  ${progressText(printed, count)}`);
  }, PROGRESS_MS);
  try {
    const job = async () => {
      for (let batch = batches.shift(); batch; batch = batches.shift()) await runBatch(batch);
    };
    // What two processes print would be mixed.
    await Promise.all(Array.from({ length: verbose ? 1 : JOBS }, job));
    report("tests", total.failed > 0, since, `: ${countsLine(total)}`);
    if (slowest.length > 0) console.log("       The slowest:");
    slowest.sort((a, b) => b.seconds - a.seconds);
    for (const { title, path, seconds } of slowest.slice(0, SLOWEST)) {
      console.log(`       ${seconds.toFixed(1).padStart(5)} s  ${path}: ${title}`);
    }
    return total;
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
  const isChanged = args.includes("--changed");
  const named = args.filter((arg) => !arg.startsWith("--"));
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  const paths = isChanged ? await testsOfChange(named[0]) ?? [] : named;
  if (isChanged) console.log(`The change reaches ${paths.length || "all"} test files`);

  for (const stage of paths.length > 0 && !isChanged ? [] : STAGES) {
    const since = performance.now();
    const { code, output } = await runDeno(stage.args, verbose);
    report(stage.name, code !== 0, since);
    if (code === 0) total.passed++;
    else {
      total.failed++;
      if (!verbose) console.log(output.trimEnd());
    }
  }

  const tests = await runTests(paths, verbose).catch((error: Error): Counts => {
    console.log(error.message);
    return { passed: 0, failed: 1, skipped: 0 };
  });
  total.passed += tests.passed;
  total.failed += tests.failed;
  total.skipped += tests.skipped;

  console.log(countsLine(total));
  return total.failed > 0 ? 1 : 0;
}

// On Windows the launcher cannot take its own word away.
if (import.meta.main) Deno.exit(await main(Deno.args.slice(Deno.args[0] === "test" ? 1 : 0)));
