/** Drivers out of Debian's packages, unpacked into a folder of our own: neither root nor an installation is needed. */
import { join } from "node:path";

/** What is wanted of Debian. */
interface Wanted {
  /** Where packages are unpacked and lists are kept. */
  readonly folder: string;
  readonly packages: readonly string[];
  /** Release, such as `sid`; this machine's by default. */
  readonly suite?: string;
  /** Whether all that the packages need comes along, as if nothing were installed. */
  readonly complete: boolean;
  /** Whose programs they are, in Debian's words; this machine's by default. */
  readonly architecture?: "amd64" | "arm64";
}

/**
 * Fetches packages and unpacks them.
 *
 * @returns the folder that stands for `/`; undefined where this machine knows no mirror of Debian for x86-64
 */
export async function unpackPackages(wanted: Wanted): Promise<string | undefined> {
  const { folder } = wanted;
  const { os, arch } = Deno.build;
  const mirror = os === "linux" && arch === "x86_64" ? await debianMirror() : undefined;
  if (mirror === undefined) return undefined;
  const suite = wanted.suite ?? await codename();
  const archives = join(folder, "cache", "archives");
  const root = join(folder, "root");
  await Deno.mkdir(join(folder, "lists", "partial"), { recursive: true });
  await Deno.mkdir(join(archives, "partial"), { recursive: true });
  const sources = join(folder, `${suite}.sources`);
  await Deno.writeTextFile(
    sources,
    `Types: deb\nURIs: ${mirror}\nSuites: ${suite}\nComponents: main\n` +
      "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
  );
  const options = [
    `Dir::Etc::sourcelist=${sources}`,
    "Dir::Etc::sourceparts=-",
    `Dir::State::lists=${join(folder, "lists")}`,
    // As if nothing were installed.
    "Dir::State::status=/dev/null",
    `Dir::Cache=${join(folder, "cache")}`,
    "APT::Sandbox::User=",
    "APT::Install-Recommends=false",
    "Debug::NoLocking=true",
    `APT::Architecture=${wanted.architecture ?? "amd64"}`,
    `APT::Architectures=${wanted.architecture ?? "amd64"}`,
  ].flatMap((option) => ["-o", option]);
  await must("apt-get", [...options, "-qq", "update"], folder);
  const get = wanted.complete ? ["-y", "--download-only", "install"] : ["download"];
  await must("apt-get", [...options, "-qq", ...get, ...wanted.packages], archives);
  for await (const { name } of Deno.readDir(archives)) {
    if (name.endsWith(".deb")) await must("dpkg-deb", ["-x", join(archives, name), root], folder);
  }
  await Deno.remove(archives, { recursive: true });
  return root;
}

/** A manifest by which Vulkan's loader finds a driver. */
export async function writeDriverManifest(
  path: string,
  library: string,
  version: string,
): Promise<void> {
  const ICD = { api_version: version, library_path: library };
  await Deno.writeTextFile(path, JSON.stringify({ file_format_version: "1.0.0", ICD }));
}

/** Name of this machine's release. */
async function codename(): Promise<string> {
  const release = await Deno.readTextFile("/etc/os-release");
  return /^VERSION_CODENAME=(\w+)$/m.exec(release)?.[1] ?? "stable";
}

/** The mirror that apt-get is told to use for Debian; undefined where there is none. */
async function debianMirror(): Promise<string | undefined> {
  try {
    const args = ["indextargets", "--format", "$(ORIGIN) $(RELEASE) $(REPO_URI)"];
    const { stdout } = await new Deno.Command("apt-get", { args, stderr: "null" }).output();
    return mirrorOf(new TextDecoder().decode(stdout));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** The address in the first line of a release of Debian; updates and security fixes may lie elsewhere. */
export function mirrorOf(targets: string): string | undefined {
  return /^Debian [a-z]+ (\S+)$/m.exec(targets)?.[1];
}

async function must(command: string, args: readonly string[], cwd: string): Promise<void> {
  const child = new Deno.Command(command, { args: [...args], cwd, stdin: "null" }).spawn();
  if ((await child.status).code === 0) return;
  throw new Error(`Cannot fetch a driver: ${command} ${args.at(-1)} failed`);
}

/** Where drivers lie that were fetched. */
export function driversFolder(): string {
  const cache = Deno.env.get("XDG_CACHE_HOME") || join(Deno.env.get("HOME") ?? "", ".cache");
  return join(cache, "denoise");
}
