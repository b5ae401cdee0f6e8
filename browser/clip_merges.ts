/** CLIP's vocabulary from beside the script; stands in for `models/tokenizers/clip/merges.ts`. */
export async function clipMerges(): Promise<string> {
  const url = new URL("./clip_merges.txt", import.meta.url);
  const answer = await fetch(url);
  if (answer.ok) return await answer.text();
  throw new Error(`Cannot load CLIP's vocabulary: ${url} answers ${answer.status}`);
}
