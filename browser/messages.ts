/** What the page and its workers say to each other before the engine's own protocol begins. */
import type { RemoteSource } from "./files.ts";
import type { CacheMode, RemoteFile } from "./store.ts";

/** A file of a model at its path in the table. */
export interface MountedFile {
  readonly path: string;
  readonly blob: Blob;
}

/** A file that is read from its server, at its path in the table. */
export interface RemoteFileAt extends Omit<RemoteSource, "kind"> {
  readonly path: string;
}

export type ToBrowserWorker =
  /** Puts files into the worker's table. */
  | { readonly type: "mount"; readonly files: readonly (MountedFile | RemoteFileAt)[] }
  /** Fetches files, one after the other. */
  | {
    readonly type: "obtain";
    readonly files: readonly (RemoteFile & { readonly path: string })[];
    readonly cache: CacheMode;
  };

export type FromBrowserWorker =
  | { readonly type: "bytes"; readonly count: number }
  | { readonly type: "obtained"; readonly files: readonly MountedFile[] }
  | { readonly type: "refused"; readonly message: string };
