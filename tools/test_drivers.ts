/**
 * Runs tests on other drivers than this machine's (`deno task test:drivers [DRIVER…] [PATH…]`; takes the options of
 * `deno test`): `mesa`, Mesa's newest software driver; `swiftshader`; `dawn` in the place of Deno's WebGPU. All of them
 * where none is named.
 *
 * Where no path is given, every op equals its reference and repeats itself on every driver.
 */
import { DRIVERS } from "./drivers/mod.ts";
import { ROOT } from "./root.ts";

const OPS = "runtime/ops/conformance_test.ts";

const REPETITIONS = "100";

async function main(args: readonly string[]): Promise<number> {
  const isDriver = (arg: string) => Object.hasOwn(DRIVERS, arg);
  const named = args.filter(isDriver);
  const rest = args.filter((arg) => !isDriver(arg));
  const isOps = rest.every((arg) => arg.startsWith("-"));
  let worst = 0;
  for (const name of named.length > 0 ? named : Object.keys(DRIVERS)) {
    const start = await DRIVERS[name]!();
    if (start === undefined) {
      console.error(
        `Cannot test on ${name}: what it needs is fetched on Debian for x86-64 only; install it, and name it in VK_DRIVER_FILES`,
      );
      worst = 1;
      continue;
    }
    console.log(`On ${name}:`);
    const filter = start.filter === undefined ? [] : [`--filter=${start.filter}`];
    const { code } = await new Deno.Command(start.deno, {
      args: ["test", "-A", "--no-check", ...rest, ...isOps ? [OPS, ...filter] : []],
      cwd: ROOT,
      env: { DENOISE_CACHE: "off", DENOISE_REPETITIONS: REPETITIONS, ...start.env },
      stdin: "null",
    }).spawn().status;
    worst = Math.max(worst, code);
  }
  return worst;
}

if (import.meta.main) {
  try {
    Deno.exit(await main(Deno.args));
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}
