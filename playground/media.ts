/** Results as the browser shows them. */

import { useEffect, useState } from "preact/hooks";
import { call, isReachable } from "./api.ts";
import { type Job, type Result, resultAt } from "./jobs.ts";

/** Files that elements cannot fetch, as they send no key, by address. */
const fetched = new Map<string, Promise<string>>();
const MAX_FETCHED = 300;

/** An address of ours relative to the page, whatever the server calls itself; a cloud's as it is. */
function addressOf({ url }: Result): { path: string; isOurs: boolean } {
  const own = /\/(v1\/(?:images|videos)\/[^/]+\/content(?:\?variant=\d+)?)$/.exec(url)?.[1];
  return own ? { path: own, isOurs: true } : { path: url, isOurs: false };
}

export async function blobOf(result: Result): Promise<Blob> {
  return await (await call(addressOf(result).path)).blob();
}

/** What the beginning of a video's file names where it has sound, in MP4 and in WebM. */
const SOUND = /soun|A_OPUS/;
const BEGINNING_BYTES = 2 ** 18;

/** Whether a video has sound; it may have, where its file cannot be looked into. */
export async function hasSound(result: Result): Promise<boolean> {
  const { path, isOurs } = addressOf(result);
  if (!isOurs) return true;
  try {
    const headers = { range: `bytes=0-${BEGINNING_BYTES - 1}` };
    // A page may not ask the cloud that a server leads to.
    const beginning = await call(path, { headers, redirect: "error" });
    return SOUND.test(new TextDecoder("latin1").decode(await beginning.arrayBuffer()));
  } catch {
    return true;
  }
}

export async function dataUrlOf(blob: Blob): Promise<string> {
  return await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

async function objectUrl(path: string): Promise<string> {
  return URL.createObjectURL(await (await call(path)).blob());
}

/** An address that an element can show; undefined while it is fetched. */
export function useMedia(result: Result | undefined, isWanted = true): string | undefined {
  const { path, isOurs } = result ? addressOf(result) : { path: "", isOurs: false };
  const isDirect = !isOurs || isReachable();
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    setUrl(undefined);
    if (isDirect || !path || !isWanted) return;
    let isCurrent = true;
    let found = fetched.get(path);
    if (!found) {
      fetched.set(path, found = objectUrl(path));
      found.catch(() => fetched.delete(path));
      forgetOldest();
    }
    found.then((address) => isCurrent && setUrl(address), () => {});
    return () => void (isCurrent = false);
  }, [path, isDirect, isWanted]);
  return path === "" ? undefined : isDirect ? path : url;
}

function forgetOldest(): void {
  const [oldest] = fetched;
  if (fetched.size <= MAX_FETCHED || !oldest) return;
  fetched.delete(oldest[0]);
  oldest[1].then((url) => URL.revokeObjectURL(url), () => {});
}

export async function download(result: Result, name: string): Promise<void> {
  save(await blobOf(result), name);
}

/** @param results ids of jobs, or an id, a slash and which of its results */
export async function downloadArchive(results: readonly string[]): Promise<void> {
  const archive = await call("v1/jobs/archive", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ results }),
  });
  save(await archive.blob(), `denoise-${new Date().toISOString().slice(0, 10)}.zip`);
}

/** Gives a file to the user, under a name. */
export function save(file: Blob, name: string): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** `a-red-fox-1234.png`. */
export function fileName(job: Job, index: number): string {
  const { id, prompt, outputs } = job;
  const title = (prompt ?? "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40);
  const result = resultAt(job, index);
  const type = result?.content_type ?? "";
  const extension = type.split("/")[1]?.replace("jpeg", "jpg") ?? "bin";
  const seed = result?.seed;
  // Layers of an image have one seed.
  const isShared = outputs?.some((other) => other.index !== index && other.seed === seed);
  const place = seed === undefined || isShared ? `${seed ?? ""}-${index}` : seed;
  return `${title.replace(/^-|-$/g, "") || id}-${place}.${extension}`;
}
