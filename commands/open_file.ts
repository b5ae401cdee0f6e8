/** Opens files and pages with the programs that the desktop has for them. */

const OPENERS: Readonly<Record<string, readonly string[]>> = {
  darwin: ["open"],
  // start is a word of cmd; its first quoted word would be a title.
  windows: ["cmd", "/c", "start", ""],
};

/**
 * Opens a file or an address.
 *
 * @throws {Error} when no program of the desktop can be started
 */
export async function openFile(target: string): Promise<void> {
  const [program = "", ...args] = OPENERS[Deno.build.os] ?? ["xdg-open"];
  const child = new Deno.Command(program, {
    args: [...args, target],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  });
  const ended = await child.output().catch((error: Error) => error);
  if (ended instanceof Error || !ended.success) {
    throw new Error(`Cannot open ${target}: ${program} does not open it on this machine`);
  }
}
