/** Opens files and pages with the programs that the desktop has for them. */
import { resolve } from "node:path";

/** A program that opens something, and its arguments. */
export function openCommand(
  target: string,
  os: string = Deno.build.os,
): [string, Omit<Deno.CommandOptions, "signal">] {
  // A name such as -x.png would be a flag.
  const named = URL.canParse(target) && /^https?:/.test(target) ? target : resolve(target);
  if (os === "windows") {
    // start is a word of cmd; its first quoted word is a title. Quoted, & is no sign of cmd's either.
    const line = `"start "" "${named}""`;
    return ["cmd", { args: ["/d", "/s", "/c", line], windowsRawArguments: true }];
  }
  return [os === "darwin" ? "open" : "xdg-open", { args: [named] }];
}

/**
 * Opens a file or an address.
 *
 * @throws {Error} when no program of the desktop can be started
 */
export async function openFile(target: string): Promise<void> {
  const [program, options] = openCommand(target);
  const child = new Deno.Command(program, {
    ...options,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  });
  const ended = await child.output().catch((error: Error) => error);
  if (ended instanceof Error || !ended.success) {
    throw new Error(`Cannot open ${target}: ${program} does not open it on this machine`);
  }
}
