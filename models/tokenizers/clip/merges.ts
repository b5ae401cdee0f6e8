/** Pairs of CLIP's vocabulary, a line each; half a megabyte, loaded where it is asked for. */
export async function clipMerges(): Promise<string> {
  return (await import("./merges.txt", { with: { type: "text" } })).default;
}
