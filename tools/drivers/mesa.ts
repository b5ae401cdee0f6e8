/** Mesa's newest software driver, out of Debian unstable. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { driversFolder, unpackPackage, writeDriverManifest } from "./debian.ts";

/**
 * Path of a script that starts Deno on Mesa's newest software driver, which is fetched when it is not there. Deno is
 * started with the C library that the driver wants.
 *
 * @returns undefined where it cannot be fetched
 */
export async function denoWithMesa(deno: string): Promise<string | undefined> {
  const folder = join(driversFolder(), "mesa");
  const script = join(folder, "deno");
  if (existsSync(script)) return script;
  console.error(
    `Fetching Mesa's software driver from Debian unstable into ${folder}, once (66 MB)`,
  );
  const wanted = { folder, package: "mesa-vulkan-drivers", suite: "sid", complete: true };
  const root = await unpackPackage(wanted);
  if (root === undefined) return undefined;
  const libraries = join(root, "usr", "lib", "x86_64-linux-gnu");
  const driver = join(folder, "driver.json");
  await writeDriverManifest(driver, join(libraries, "libvulkan_lvp.so"), "1.4.0");
  await Deno.writeTextFile(
    script,
    `#!/bin/sh\nexport VK_DRIVER_FILES='${driver}' DENO_WEBGPU_BACKEND=vulkan\n` +
      `exec '${libraries}/ld-linux-x86-64.so.2' --library-path '${libraries}' '${deno}' "$@"\n`,
    { mode: 0o755 },
  );
  return script;
}
