/** What programs may take of macOS's memory: Deno and Node count no cached files there, of which a Mac is full by and by. */
import type { HostMemory } from "./types.ts";

/** Prints the pages of memory by their use. */
export const VM_STAT = "/usr/bin/vm_stat";

/** Memory with what `vm_stat` printed: free pages, cached files, and what programs gave away until they need it again. */
export function withCachedFiles(memory: HostMemory, printed: string): HostMemory {
  const pageBytes = Number(/page size of (\d+) bytes/.exec(printed)?.[1]);
  const pages = ["Pages free", "File-backed pages", "Pages purgeable"]
    .map((name) => Number(new RegExp(`^${name}:\\s+(\\d+)\\.?$`, "m").exec(printed)?.[1]));
  const bytes = pageBytes * pages.reduce((sum, count) => sum + count, 0);
  const isKnown = bytes > memory.available && bytes <= memory.total;
  return isKnown ? { ...memory, available: bytes } : memory;
}
