/** What tells the files that kernels come from from those of another version without reading them. */
import { digest } from "./kernel_set.ts";

/** Where this module lies where the program lies as it was written. */
const OWN_PLACE = "/runtime/tuning/program_stamp.ts";

/**
 * Digest of places, sizes and times of the program's files that kernels come from: it takes milliseconds, where reading the
 * kernels themselves takes half a second.
 *
 * @returns nothing where the files cannot be asked, as those of a program that came over the network
 */
export async function programStamp(module: string = import.meta.url): Promise<string | undefined> {
  try {
    if (Deno.build.standalone) return await digest(stampOf(Deno.execPath()));
    // What was packed into one file has no folder of its own.
    const isPacked = !module.endsWith(OWN_PLACE);
    const stamps = isPacked ? [stampOf(new URL(module))] : stampsBelow(new URL("../", module));
    return await digest([...stamps].join("\n"));
  } catch {
    return undefined;
  }
}

function* stampsBelow(folder: URL): Generator<string> {
  const entries = [...Deno.readDirSync(folder)].sort((a, b) => a.name < b.name ? -1 : 1);
  for (const { name, isDirectory } of entries) {
    if (isDirectory) yield* stampsBelow(new URL(`${name}/`, folder));
    else if (!name.endsWith("_test.ts")) yield stampOf(new URL(name, folder));
  }
}

function stampOf(file: URL | string): string {
  const { size, mtime } = Deno.statSync(file);
  return `${file} ${size} ${mtime?.getTime()}`;
}
