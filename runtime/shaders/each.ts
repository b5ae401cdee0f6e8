/** WGSL written out `count` times, one below the other: registers are named, never indexed. */
export function each(count: number, line: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => line(i)).join("\n");
}
