/**
 * Runs the tests of other servers and clients against `denoise serve` (`deno task test:peers`): those that PyPI has, in the
 * versions named here. Takes names of suites; all by default.
 *
 * `known.ts` says of tests that do not pass why. The run fails where another test does not pass, and where a known
 * difference is seen no more.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder } from "../../engine/worker_settings.ts";
import { startProcess } from "../e2e/server_process.ts";
import { type Difference, KNOWN } from "./known.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const PYTHON = Deno.env.get("PYTHON") ?? "python3";

/** Tests that somebody else wrote, or that use what somebody else wrote. */
interface Suite {
  /** What to fetch and unpack, as pip names it; none where the tests are in `python/`. */
  readonly fetched?: readonly [requirement: string, kind: "wheel" | "sdist"];
  /** Flags of the server. */
  readonly serve?: readonly string[];
  /** What pytest is told, in the folder where it starts: that of what was unpacked, or `python/`. */
  readonly pytest: readonly string[];
}

const SUITES: Readonly<Record<string, Suite>> = {
  openai: {
    fetched: ["openai==3.57.0", "sdist"],
    pytest: [
      ...["images", "videos", "models"].map((name) => `tests/api_resources/test_${name}.py`),
      ...["-o", "addopts=", "-p", "openai_pictures", "-k", "not Async"],
    ],
  },
  sglang: {
    fetched: ["sglang==0.5.23", "wheel"],
    serve: ["--lora", "outline", "--allow-hub-loras"],
    pytest: [join(HERE, "python/sglang_test.py"), "--rootdir", HERE],
  },
  vllm_omni: {
    fetched: ["vllm-omni==0.20.0", "sdist"],
    // The models that the tests name.
    serve: ["Wan-AI/Wan2.2-T2V-A14B-Diffusers", "black-forest-labs/FLUX.2-klein-4B"]
      .flatMap((name) => ["--model-path", `${name}=bundled`]),
    pytest: [
      ...["video_generation_api", "flux2_klein_inpaint_expansion"]
        .map((name) => `tests/e2e/online_serving/test_${name}.py`),
      ...["--noconftest", "-o", "addopts=", "-p", "vllm_omni_server"],
    ],
  },
  webuiapi: { pytest: ["webuiapi_test.py"] },
};

/** What became of a test. */
interface Result {
  readonly test: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly message: string;
}

async function run(program: string, args: readonly string[], options: Deno.CommandOptions = {}) {
  const { code, stdout, stderr } = await new Deno.Command(program, { ...options, args: [...args] })
    .output();
  const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, text: `${out}\n${errors}`.trim() };
}

async function must(program: string, args: readonly string[]): Promise<void> {
  const { code, text } = await run(program, args);
  if (code !== 0) throw new Error(`Cannot go on: ${program} ${args.join(" ")} failed:\n${text}`);
}

/** A Python of its own with what the suites need; made once for each list of requirements. */
async function ownPython(folder: string): Promise<string> {
  const requirements = join(HERE, "python/requirements.txt");
  const wanted = await Deno.readTextFile(requirements);
  const [python, mark] = [join(folder, "venv/bin/python"), join(folder, "venv/requirements.txt")];
  if (await Deno.readTextFile(mark).catch(() => "") === wanted) return python;
  await must(PYTHON, ["-m", "venv", "--clear", join(folder, "venv")]);
  await must(python, ["-m", "pip", "install", "--quiet", "-r", requirements]);
  await Deno.writeTextFile(mark, wanted);
  return python;
}

/** The folder of what was fetched, unpacked once. */
async function unpacked(python: string, folder: string, [what, kind]: [string, string]) {
  const target = join(folder, what);
  const present = await Deno.stat(target).then(() => true, () => false);
  if (!present) {
    const fetched = await Deno.makeTempDir();
    const only = kind === "sdist" ? "--no-binary" : "--only-binary";
    const args = ["download", "--quiet", "--no-deps", only, ":all:", "--dest", fetched, what];
    await must(python, ["-m", "pip", ...args]);
    const [file] = await Array.fromAsync(Deno.readDir(fetched));
    const archive = join(fetched, file!.name);
    const code = "import shutil, sys; shutil.unpack_archive(*sys.argv[1:])";
    await must(python, ["-c", code, archive, `${target}.part`, kind === "sdist" ? "gztar" : "zip"]);
    await Deno.rename(`${target}.part`, target);
    await Deno.remove(fetched, { recursive: true });
  }
  if (kind === "wheel") return target;
  const [inner] = await Array.fromAsync(Deno.readDir(target));
  return join(target, inner!.name);
}

async function results(name: string, { fetched, serve = [], pytest }: Suite): Promise<Result[]> {
  const folderOfCache = cacheFolder();
  if (!folderOfCache) {
    throw new Error("Cannot go on: DENOISE_CACHE is off, and suites are kept there");
  }
  const cache = join(folderOfCache, "peers");
  await Deno.mkdir(cache, { recursive: true });
  const python = await ownPython(cache);
  const suite = fetched ? await unpacked(python, cache, [...fetched]) : join(HERE, "python");
  const folder = await Deno.makeTempDir({ prefix: `peers-${name}-` });
  const file = join(folder, "results.jsonl");
  await using server = await startProcess(folder, serve);
  const { text } = await run(python, [
    ...["-m", "pytest", "-p", "results", "-p", "no:cacheprovider", "--color=no", "--tb=short"],
    ...pytest,
  ], {
    cwd: suite,
    env: {
      PYTHONPATH: join(HERE, "python"),
      PYTHONDONTWRITEBYTECODE: "1",
      PEER_RESULTS: file,
      PEER_SUITE: suite,
      PEER_FOLDER: folder,
      PEER_URL: server.url,
      TEST_API_BASE_URL: `${server.url}/v1`,
    },
  });
  const lines = (await Deno.readTextFile(file).catch(() => "")).trim();
  if (lines === "") throw new Error(`Cannot go on: no test of ${name} ran:\n${text}`);
  await Deno.remove(folder, { recursive: true });
  return lines.split("\n").map((line) => JSON.parse(line));
}

/** Prints what moved; whether nothing did. */
function isAsKnown(name: string, found: readonly Result[]): boolean {
  const known = KNOWN[name] ?? [];
  const failed = found.filter(({ outcome }) => outcome !== "passed");
  const explains = ({ test, message }: Result, { tests, says }: Difference) =>
    tests.test(test) && says.test(message);
  const fresh = failed.filter((result) => !known.some((each) => explains(result, each)));
  const gone = known.filter((each) => !failed.some((result) => explains(result, each)));
  console.log(
    `${name}: ${found.length - failed.length} of ${found.length} pass, ` +
      `${failed.length - fresh.length} differ as known`,
  );
  for (const { test, message } of fresh) console.log(`  differs: ${test}\n    ${message}`);
  for (const { why } of gone) console.log(`  known, and seen no more: ${why}`);
  return fresh.length + gone.length === 0;
}

const unknown = Deno.args.find((name) => !Object.hasOwn(SUITES, name));
if (unknown !== undefined) {
  const names = Object.keys(SUITES).join(", ");
  throw new RangeError(`Cannot run the suite "${unknown}": there are ${names}`);
}
let isSame = true;
for (const [name, suite] of Object.entries(SUITES)) {
  if (Deno.args.length > 0 && !Deno.args.includes(name)) continue;
  isSame = isAsKnown(name, await results(name, suite)) && isSame;
}
if (!isSame) Deno.exit(1);
