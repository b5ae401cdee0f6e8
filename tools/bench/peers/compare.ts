/** The bench against peers, as `./denoise bench --peers` runs it. */

import { fileURLToPath } from "node:url";
import { denoPath } from "../machine.ts";
import type { PeerRun } from "./results.ts";

/**
 * Compares our ops with those of jax-js, ONNX Runtime and, where it is installed, torch. The first time, the
 * packages are fetched into Deno's cache: 150 MB.
 *
 * @param specs `OP:SIZExSIZE…`; a default set when empty
 * @throws {Error} when the process that compares fails; what it said went to standard error
 */
export async function comparePeers(specs: readonly string[] = []): Promise<PeerRun> {
  const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
  const { success, stdout } = await new Deno.Command(denoPath(), {
    args: [
      "run",
      "-A",
      "--quiet",
      "--no-config",
      "--frozen",
      `--lock=${file("deno.lock")}`,
      file("process.ts"),
      ...specs,
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("Cannot compare with peers: the process that compares failed");
  return JSON.parse(new TextDecoder().decode(stdout)) as PeerRun;
}
