/** What a process that reads foreign bytes may take of the machine. */

/** Limits that the system enforces, beside the time after which a process is killed. */
interface ProcessLimits {
  /** Most memory that it may write to, in bytes. */
  readonly memoryBytes: number;
  /** Most time on all cores together, in seconds, or `Infinity`: for what goes on when nobody is left to kill it. */
  readonly cpuSeconds: number;
}

/**
 * Puts a command under limits. Systems without such limits run it as it is: there, the checks before and the time limit
 * have to do.
 */
export function limited(
  command: readonly string[],
  { memoryBytes, cpuSeconds }: ProcessLimits,
): string[] {
  if (Deno.build.os === "windows") return [...command];
  // Data, not address space: JavaScript engines and allocators reserve far more than they use.
  const limit = (option: string) => `ulimit ${option} 2>/dev/null;`;
  const script = `${limit("-c 0")} ${limit('-d "$1"')} ${limit('-t "$2"')} shift 2; exec "$@"`;
  const kib = String(Math.floor(memoryBytes / 1024));
  return [
    "/bin/sh",
    "-c",
    script,
    "sh",
    kib,
    cpuSeconds === Infinity ? "unlimited" : String(cpuSeconds),
    ...command,
  ];
}

/** Names of variables that hold what a decoder must not learn. */
const SECRET = /TOKEN|SECRET|PASSW|CREDENTIAL|_KEY|COOKIE|AUTH/i;

/** The variables of this process without those that look like secrets, for a process that reads foreign bytes. */
export function harmlessEnvironment(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) => !SECRET.test(name)),
  );
}
