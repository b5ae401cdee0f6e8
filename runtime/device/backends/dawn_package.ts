/** Where Dawn is: a native addon of 21 MB in the npm package `webgpu`, which users who want it fetch. */
import { ARCH, env, join, listFolderSync, OS, OWN_GPU } from "../../../platform/mod.ts";
import { NoAdapterError } from "../../errors.ts";

/** The version that the tests ran with. */
export const DAWN_VERSION = "0.6.2";

const FETCH = OWN_GPU === "dawn"
  ? `npm install webgpu@${DAWN_VERSION}`
  : `deno cache --no-config --no-lock npm:webgpu@${DAWN_VERSION}`;

export interface Surroundings {
  env(name: string): string | undefined;
  readonly os: string;
  /** The processor, as in `ARCH`. */
  readonly arch: string;
  /** Names in a folder; none where there is no such folder. */
  list(folder: string): string[];
}

export const HERE: Surroundings = {
  env,
  os: OS,
  arch: ARCH,
  list: (folder) => {
    try {
      return listFolderSync(folder);
    } catch {
      return [];
    }
  },
};

/** In `DENOISE_DAWN`, which names a copy of the npm package, else in Deno's cache of npm packages. */
export function findDawn(here: Surroundings = HERE): string {
  const platform = platformFolder(here);
  const named = here.env("DENOISE_DAWN");
  const folders = named ? [named] : cachedPackages(here);
  for (const folder of folders) {
    const dist = join(folder, "dist", platform);
    if (here.list(dist).includes("dawn.node")) return join(dist, "dawn.node");
  }
  throw new NoAdapterError(
    named
      ? `Cannot use Dawn: DENOISE_DAWN is ${named}, which holds no dist/${platform}/dawn.node; name a folder ` +
        `that holds the npm package webgpu ${DAWN_VERSION}`
      : `Cannot use Dawn: it is not on this machine; fetch it with "${FETCH}" (51 MB, once), or name a folder ` +
        "that holds that npm package in DENOISE_DAWN",
  );
}

/** The package names its folders as Node does. */
function platformFolder({ os, arch }: Surroundings): string {
  if (os === "darwin") return "darwin-universal";
  const node = arch === "x86_64" ? "x64" : "arm64";
  return `${os === "windows" ? "win32" : os}-${node}`;
}

/** Deno's cache has a folder for every registry, and in it one for every version of a package. */
function cachedPackages(here: Surroundings): string[] {
  const npm = join(denoFolder(here), "npm");
  return here.list(npm).map((registry) => join(npm, registry, "webgpu", DAWN_VERSION));
}

function denoFolder({ env, os }: Surroundings): string {
  const own = env("DENO_DIR");
  if (own) return own;
  const home = env("HOME") ?? "";
  if (os === "windows") return join(env("LOCALAPPDATA") ?? "", "deno");
  if (os === "darwin") return join(home, "Library", "Caches", "deno");
  return join(env("XDG_CACHE_HOME") || join(home, ".cache"), "deno");
}
