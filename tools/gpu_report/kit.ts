/** Packs `denoise report`, Deno, Dawn and the Vulkan loader for Linux on x86-64 without network (`deno task gpu-kit`). */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fetchDawn } from "../drivers/mod.ts";
import { DENO, ROOT } from "../root.ts";

const FOLDER = fileURLToPath(ROOT);
const KIT = join(FOLDER, "dist", "gpu-kit");
/** What mail, chats and runners of commands still take. */
const MAX_BYTES = 50 * 2 ** 20;

/** Where systems have the loader. */
const LOADERS = [
  "/usr/lib/x86_64-linux-gnu/libvulkan.so.1",
  "/usr/lib64/libvulkan.so.1",
  "/usr/lib/libvulkan.so.1",
];

async function main(): Promise<void> {
  const { os, arch } = Deno.build;
  if (os !== "linux" || arch !== "x86_64") {
    throw new Error(
      `Cannot pack a kit on ${os} for ${arch}: it is made of what Linux for x86-64 has`,
    );
  }
  const loader = LOADERS.find((path) => existsSync(path));
  if (!loader) {
    throw new Error("Cannot pack a kit: this machine has no Vulkan loader; install libvulkan1");
  }
  const dawn = await fetchDawn();
  await Deno.remove(KIT, { recursive: true }).catch(() => {});
  await Deno.mkdir(join(KIT, "lib"), { recursive: true });
  await must(DENO, [
    ...["bundle", "--quiet", "--platform=deno", "--minify", "-o", join(KIT, "report.js")],
    join(FOLDER, "tools", "gpu_report", "kit_program.ts"),
  ]);
  // Not as links, which may lead to other names.
  await Deno.writeFile(join(KIT, "lib", "libvulkan.so.1"), await Deno.readFile(loader));
  await Deno.copyFile(join(FOLDER, "tools", "gpu_report", "run.sh"), join(KIT, "run.sh"));
  console.error("Packing Deno and Dawn, which takes a minute");
  await Promise.all([pack(DENO, "deno.xz"), pack(dawn, "dawn.node.xz")]);
  let bytes = 0;
  for (const name of ["deno.xz", "dawn.node.xz", "report.js", "run.sh", "lib/libvulkan.so.1"]) {
    const { size } = await Deno.stat(join(KIT, name));
    console.log(`${(size / 2 ** 20).toFixed(1).padStart(6)} MiB  ${name}`);
    bytes += size;
  }
  if (bytes > MAX_BYTES) {
    throw new Error(`Cannot hand out the kit: it has ${bytes} bytes, more than ${MAX_BYTES}`);
  }
  console.log(`${(bytes / 2 ** 20).toFixed(1).padStart(6)} MiB  ${KIT}`);
}

async function pack(path: string, name: string): Promise<void> {
  const target = await Deno.open(join(KIT, name), { write: true, create: true });
  const child = new Deno.Command("xz", { args: ["-9", "-c", path], stdout: "piped" }).spawn();
  await child.stdout.pipeTo(target.writable);
  if (!(await child.status).success) throw new Error(`Cannot pack ${path}: xz failed`);
}

async function must(command: string, args: string[]): Promise<void> {
  const { success } = await new Deno.Command(command, { args, cwd: ROOT }).spawn().status;
  if (!success) throw new Error(`Cannot pack a kit: ${command} ${args[0]} failed`);
}

if (import.meta.main) await main();
