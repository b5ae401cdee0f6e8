/**
 * GPUs that are not there: Mesa's drivers for AMD's, Intel's and NVIDIA's, of which only the compilers work, opened through
 * `layer.c`; `intel.c` and `nvidia.c` are the kernels that the latter two talk to.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { driversFolder, unpackPackages, writeDriverManifest } from "../drivers/debian.ts";
import { DENO, ROOT } from "../root.ts";

const LAYER = "VK_LAYER_DENOISE_compile";

/** What is missing on this machine to compile kernels for such GPUs. */
export class NoCompilerError extends Error {
  override readonly name = "NoCompilerError";
}

/** Who makes a GPU. */
export type Maker = "amd" | "intel" | "nvidia";

/** The GPUs with tables: AMD's as RADV names them, the others as `intel.c` and `nvidia.c` do. */
export const NULL_GPUS: Readonly<Record<string, Maker>> = {
  ...{ navi31: "amd", navi21: "amd", vega10: "amd", gfx1200: "amd" },
  ...{ dg2: "intel", lnl: "intel" },
  ...{ ga102: "nvidia" },
};

/** Mesa's drivers. */
const DRIVERS: Readonly<Record<Maker, string>> = {
  amd: "radeon",
  intel: "intel",
  nvidia: "nouveau",
};

/** What starts one of our programs on a GPU: one of {@linkcode NULL_GPUS}, or any that RADV knows. */
export type StartOnNullGpu = (
  family: string,
  args: readonly string[],
  options: { readonly wantsAssembly: boolean },
) => Deno.Command;

/**
 * Fetches Mesa where it is missing, and builds what opens it.
 *
 * @param folder for the layer and what it writes of the pipeline made last, under the name in DENOISE_LAYER_OUT
 * @throws {NoCompilerError}
 */
export async function openNullGpu(folder: string): Promise<StartOnNullGpu> {
  const [vulkan, drm] = [
    await fetchPackage("libvulkan-dev", "2 MB", false),
    await fetchPackage("libdrm-dev", "0.3 MB", false),
  ].map((root) => join(root, "usr", "include"));
  const layer = await buildLibrary("layer", [vulkan!], folder);
  const kernels: Record<string, string> = {};
  for (const maker of ["intel", "nvidia"]) {
    kernels[maker] = await buildLibrary(maker, [drm!, join(drm!, "libdrm")], folder);
  }
  await writeLayerManifest(layer, folder);
  // Mesa 25 is the last that opens AMD's such GPUs.
  const mesa = await fetchPackage("mesa-vulkan-drivers", "66 MB", true);
  const libraries = join(mesa, "usr", "lib", "x86_64-linux-gnu");
  const manifests = join(folder, "drivers");
  await Deno.mkdir(manifests);
  for (const driver of Object.values(DRIVERS)) {
    const library = join(libraries, `libvulkan_${driver}.so`);
    await writeDriverManifest(join(manifests, `${driver}.json`), library, "1.4.0");
  }
  return (family, args, { wantsAssembly }) => {
    const maker = NULL_GPUS[family] ?? "amd";
    const kernel = kernels[maker];
    return new Deno.Command(join(libraries, "ld-linux-x86-64.so.2"), {
      args: [
        ...(kernel ? ["--preload", kernel] : []),
        ...["--library-path", libraries, DENO, "run", "-A", "--no-check", ...args],
      ],
      cwd: ROOT,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      env: {
        [kernel ? "DENOISE_NULL_GPU" : "RADV_FORCE_FAMILY"]: family,
        MESA_SHADER_CACHE_DISABLE: "true",
        DENO_WEBGPU_BACKEND: "vulkan",
        VK_DRIVER_FILES: join(manifests, `${DRIVERS[maker]}.json`),
        VK_LAYER_PATH: folder,
        VK_INSTANCE_LAYERS: LAYER,
        // Mesa's own layer, which the system may have in another version.
        NODEVICE_SELECT: "1",
        DENOISE_LAYER_OUT: join(folder, `${family}.out`),
        ...(wantsAssembly && { DENOISE_LAYER_ASSEMBLY: "1" }),
      },
    });
  };
}

/** Unpacks a package of Debian 13 where that has not been done; gives the folder that stands for `/`. */
async function fetchPackage(name: string, size: string, complete: boolean): Promise<string> {
  const folder = join(driversFolder(), `trixie-${name}`);
  const root = join(folder, "root");
  const done = join(folder, "done");
  if (existsSync(done)) return root;
  console.error(`Fetching ${name} of Debian 13 into ${folder}, once (${size})`);
  const wanted = { folder, packages: [name], suite: "trixie", complete };
  const unpacked = await unpackPackages(wanted).catch(({ message }: Error) => {
    throw new NoCompilerError(
      `Cannot compile kernels: ${name} of Debian 13 is missing. ${message}`,
    );
  });
  if (unpacked === undefined) {
    throw new NoCompilerError(
      `Cannot compile kernels: ${name} of Debian 13 is missing, and is fetched on Debian for x86-64 only`,
    );
  }
  await Deno.writeTextFile(done, "");
  return root;
}

/** Builds a file of this folder, and gives the library. */
async function buildLibrary(
  name: string,
  includes: readonly string[],
  folder: string,
): Promise<string> {
  const source = new URL(`tools/kernels/${name}.c`, ROOT).pathname;
  const library = join(folder, `lib${name}.so`);
  const own = ["-O1", "-Wall", "-shared", "-fPIC", "-o", library, source];
  const args = [...includes.map((include) => `-I${include}`), ...own];
  try {
    const { success, stderr } = await new Deno.Command("gcc", { args, stdin: "null" }).output();
    if (success) return library;
    throw new Error(`Cannot build ${source}: ${new TextDecoder().decode(stderr)}`);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new NoCompilerError(
      `Cannot compile kernels: gcc is missing, which builds tools/kernels/${name}.c; install it`,
    );
  }
}

async function writeLayerManifest(library: string, folder: string): Promise<void> {
  const layer = {
    name: LAYER,
    type: "GLOBAL",
    library_path: library,
    api_version: "1.3.0",
    implementation_version: "1",
    description: "Opens a driver without its GPU, and writes what its compiler says",
  };
  const manifest = { file_format_version: "1.0.0", layer };
  await Deno.writeTextFile(join(folder, "layer.json"), JSON.stringify(manifest));
}
