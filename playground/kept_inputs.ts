/** What the next request brings, kept by this browser: a reload loses nothing. */

import { type Draft, draft, type GivenFile, givenFile } from "./draft.ts";

/** Inputs, as `Draft` has them. */
type Inputs = Pick<Draft, (typeof NAMES)[number]>;

const NAMES = ["images", "clip", "sound", "continues", "mask", "controls", "references"] as const;

// The library has `denoise`, where the page runs without a server.
const [DATABASE, TABLE] = ["denoise.page", "inputs"];

/** How long inputs of tabs that are closed stay, in milliseconds. */
const KEPT_MS = 24 * 3600 * 1000;

/** Each tab has its own: the time at which it was first opened. */
function keyOfTab(): number {
  const key = Number(sessionStorage.getItem("denoise.tab")) || Date.now() + Math.random();
  sessionStorage.setItem("denoise.tab", String(key));
  return key;
}

let database: Promise<IDBDatabase> | undefined;

function open(): Promise<IDBDatabase> {
  const opening = indexedDB.open(DATABASE);
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
  return resultOf(opening);
}

async function table(): Promise<IDBObjectStore> {
  return (await (database ??= open())).transaction(TABLE, "readwrite").objectStore(TABLE);
}

function resultOf<T>(request: IDBRequest<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
  return promise;
}

/** Gives the draft what it had before the reload, and keeps it from then on. */
export async function keepInputs(): Promise<void> {
  let key: number;
  try {
    key = keyOfTab();
    const store = await table();
    store.delete(IDBKeyRange.upperBound(Math.min(key - 1, Date.now() - KEPT_MS)));
    const kept = await resultOf<Inputs | undefined>(store.get(key));
    if (kept && isEmpty(draft.state)) draft.set(renewed(kept));
  } catch {
    // The browser keeps nothing, as in some private windows.
    return;
  }
  let last: Inputs = draft.state;
  draft.follow(() => {
    const now = draft.state;
    if (NAMES.every((name) => now[name] === last[name])) return;
    last = now;
    const inputs = Object.fromEntries(NAMES.map((name) => [name, now[name]]));
    // What does not fit is not kept.
    table().then((store) => resultOf(store.put(inputs, key))).catch(() => {});
  });
}

function isEmpty({ images, clip, sound, controls, references }: Inputs): boolean {
  return images.length + controls.length + references.length === 0 && !clip && !sound;
}

/** The same with addresses of this visit. */
function renewed({ images, clip, sound, controls, references, ...others }: Inputs): Inputs {
  const again = <T extends GivenFile>(file: T) => ({ ...file, ...givenFile(file.blob, file.name) });
  return {
    ...others,
    images: images.map(again),
    clip: clip && again(clip),
    // What an older page kept has none.
    sound: sound ? again(sound) : null,
    controls: controls.map((file) => file.isPainted ? file : again(file)),
    references: references.map(({ mask, ...file }) => ({
      ...again(file),
      ...(mask && { mask: again(mask) }),
    })),
  };
}
