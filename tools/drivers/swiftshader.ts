/** SwiftShader, the software driver that comes with Chromium: another compiler, subgroups of 4, no f16. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { driversFolder, unpackPackage, writeDriverManifest } from "./debian.ts";

/**
 * Path of the manifest of SwiftShader, which is fetched when it is not there.
 *
 * @returns undefined where it cannot be fetched
 */
export async function swiftShader(): Promise<string | undefined> {
  const folder = join(driversFolder(), "swiftshader");
  const manifest = join(folder, "driver.json");
  if (existsSync(manifest)) return manifest;
  console.error(`Fetching SwiftShader from Debian into ${folder}, once (31 MB)`);
  const wanted = { folder, package: "chromium-common", complete: false };
  const root = await unpackPackage(wanted);
  if (root === undefined) return undefined;
  const library = join(root, "usr", "lib", "chromium", "libvk_swiftshader.so");
  await writeDriverManifest(manifest, library, "1.1.0");
  return manifest;
}
