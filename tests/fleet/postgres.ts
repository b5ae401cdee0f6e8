/** A PostgreSQL of a test's own: a cluster in a folder that goes with it. */

import { tmpdir } from "node:os";
import { join } from "node:path";

/** Where Debian and others put the programs of a version. */
const FOLDERS = ["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt"];

/** How long the cluster may take to answer, in milliseconds. */
const START_MS = 60_000;

/** A folder with `initdb` and `postgres`, or nothing. */
function findPrograms(): string | undefined {
  const inPath = (Deno.env.get("PATH") ?? "").split(":");
  const ofVersions = FOLDERS.flatMap((folder) => {
    try {
      return [...Deno.readDirSync(folder)].map(({ name }) => join(folder, name, "bin"))
        .sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
    } catch {
      return [];
    }
  });
  return [...ofVersions, ...inPath].find((folder) =>
    ["initdb", "postgres"].every((name) => isFile(join(folder, name)))
  );
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

const programs = findPrograms();

/** PostgreSQL refuses to run as root; Debian's package brings a user for it. */
const user = Deno.build.os !== "windows" && Deno.uid() === 0 ? idOf("postgres") : undefined;

function idOf(name: string): { uid: number; gid: number } | undefined {
  const line = Deno.readTextFileSync("/etc/passwd").split("\n")
    .find((line) => line.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  return uid ? { uid: Number(uid), gid: Number(gid) } : undefined;
}

/** Why there is no PostgreSQL here; nothing where there is. */
export const noPostgres: string | undefined = programs === undefined
  ? "PostgreSQL is not installed (apt-get install postgresql)"
  : Deno.build.os !== "windows" && Deno.uid() === 0 && !user
  ? "PostgreSQL does not run as root, and there is no user postgres"
  : undefined;

/** A cluster that was never started: to copy it takes a tenth of the time that `initdb` does. */
async function template(): Promise<string> {
  const uid = user?.uid ?? Deno.uid();
  const name = `denoise-postgres-${uid}${programs!.replaceAll(/\W+/g, "-")}`;
  const path = join(tmpdir(), name);
  // Whoever else may have put something there is not trusted.
  if (await Deno.stat(path).then((info) => info.uid === uid, () => false)) return path;
  const folder = await makeFolder();
  const data = join(folder, "data");
  await run(
    join(programs!, "initdb"),
    ["-D", data, "-U", "denoise", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
    folder,
  );
  try {
    await Deno.rename(data, path);
    await Deno.remove(folder);
    return path;
  } catch {
    // Another test was quicker, or it belongs to another user.
    return data;
  }
}

async function makeFolder(): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "denoise-postgres-" });
  if (user) await Deno.chown(folder, user.uid, user.gid);
  return folder;
}

async function run(program: string, args: string[], cwd: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, {
    ...{ args, cwd, ...user },
    ...{ stdout: "null", stderr: "piped" },
  }).output();
  if (!success) throw new Error(`Cannot make a cluster: ${new TextDecoder().decode(stderr)}`);
}

/** A cluster that answers. */
export class Cluster implements AsyncDisposable {
  readonly #folder: string;
  readonly #port: number;
  #child: Deno.ChildProcess | undefined;
  #databases = 0;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#port = port;
  }

  /** Makes a cluster and starts it. */
  static async start(): Promise<Cluster> {
    const folder = await makeFolder();
    await run("cp", ["-pR", await template(), join(folder, "data")], folder);
    const cluster = new Cluster(folder, freePort());
    await cluster.run();
    return cluster;
  }

  /** Starts it again. */
  async run(): Promise<void> {
    this.#child = new Deno.Command(join(programs!, "postgres"), {
      args: ["-D", join(this.#folder, "data"), "-k", this.#folder, "-p", String(this.#port)]
        .concat(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"])
        .concat(["-c", "shared_buffers=16MB", "-c", "max_connections=200"])
        .concat(["-c", "autovacuum=off", "-c", "max_parallel_workers=0"]),
      cwd: this.#folder,
      ...user,
      stdout: "null",
      stderr: "null",
    }).spawn();
    for (const start = performance.now();;) {
      if (await this.#answers()) return;
      if (performance.now() - start > START_MS) throw new Error("Cannot start PostgreSQL");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Stops it: connections are cut, what was committed is kept. */
  async stop(): Promise<void> {
    this.#child?.kill("SIGINT");
    await this.#child?.status;
    this.#child = undefined;
  }

  /** Makes an empty database, and gives its address. */
  async database(): Promise<string> {
    const name = `test_${++this.#databases}`;
    const { default: postgres } = await import("postgres");
    const sql = postgres(this.url("postgres"), { max: 1, onnotice: () => {} });
    await sql.unsafe(`CREATE DATABASE ${name}`);
    await sql.end();
    return this.url(name);
  }

  /** The address of a database. */
  url(name: string): string {
    return `postgres://denoise@127.0.0.1:${this.#port}/${name}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.#folder, { recursive: true });
  }

  async #answers(): Promise<boolean> {
    const { default: postgres } = await import("postgres");
    const sql = postgres(this.url("postgres"), { max: 1, connect_timeout: 2, onnotice: () => {} });
    try {
      await sql`SELECT 1`;
      return true;
    } catch {
      return false;
    } finally {
      await sql.end({ timeout: 0 });
    }
  }
}

function freePort(): number {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  return port;
}
