/** What a runtime gives the program; see `mod.ts`. */

/** An open file that is read by ranges. */
export interface FileSource extends Disposable {
  /** Bytes. */
  readonly size: number;
  /** Whether it is no file, so that nothing can be read. */
  readonly isFolder: boolean;
  /** Fills `target` from byte `position` on, in the calling thread. @throws {SyntaxError} where the file ends before */
  read(position: number, target: Uint8Array): void;
  /** As {@linkcode FileSource.read}, without stopping the thread. */
  readLater(position: number, target: Uint8Array): Promise<void>;
  /** Further calls are refused. */
  close(): void;
}

export interface FileInfo {
  readonly isFile: boolean;
  readonly isDirectory: boolean;
  /** Bytes. */
  readonly size: number;
  readonly mtime: Date | null;
}

/** Bytes of the machine's memory. */
export interface HostMemory {
  /** All that the machine has. */
  readonly total: number;
  /** What programs may take; 0 where the system does not tell. */
  readonly available: number;
  /** What nothing uses. */
  readonly free: number;
}
