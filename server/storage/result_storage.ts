/** Where results are kept. */

/** A file that is kept. */
export interface StoredFile {
  /** Name of the file: unique, and without folders. */
  name: string;
  contentType: string;
  /** Length in bytes. */
  size: number;
  /** A strong validator: a digest of the bytes, in quotes. */
  etag: string;
  /** Address of the file when it is kept in a cloud. */
  url?: string;
}

/** What {@link ResultStorage} needs to know of a file to find it. */
export type FilePlace = Pick<StoredFile, "name" | "url">;

/** Keeps results, each whole or not at all. */
export interface ResultStorage {
  /** The origin of links to files in a cloud; absent where there is none. */
  readonly origin?: string;

  /**
   * Keeps a file.
   *
   * @param name letters, digits, `_`, `-` and `.`, not first
   * @returns what to keep of it in a record
   * @throws {ServiceError} when the disk is full or cannot be written to
   */
  write(name: string, bytes: Uint8Array<ArrayBuffer>, contentType: string): Promise<StoredFile>;

  /**
   * Keeps a file that something else makes; see {@link ResultStorage.write}.
   *
   * @param name letters, digits, `_`, `-` and `.`, not first
   * @param make makes the file at a path that it is given
   * @returns what to keep of it in a record
   * @throws {ServiceError} when the disk is full or cannot be written to; anything else that `make`
   * throws
   */
  writeFrom(
    name: string,
    contentType: string,
    make: (path: string) => Promise<void>,
  ): Promise<StoredFile>;

  /** Where a file is on this machine, absolute; null when it is elsewhere. */
  pathOf(file: FilePlace): string | null;

  /**
   * Answers a GET or HEAD with a file, or says where it is.
   *
   * @param request its `Range`, `If-Range`, `If-None-Match` and method count
   * @returns 200, 206, 304 or 307; undefined when the file is gone
   * @throws {ApiError} 416 for a range beyond the file
   */
  content(request: Request, file: StoredFile): Promise<Response | undefined>;

  /** An address in a cloud that works for whoever gets it, for an hour at least; null where the file is on this machine. */
  link(file: StoredFile): Promise<string | null>;

  /** The bytes of a file; undefined when it is gone. @throws {ServiceError} when it cannot be read or reached */
  read(file: StoredFile): Promise<Uint8Array<ArrayBuffer> | undefined>;

  remove(file: FilePlace): Promise<void>;

  /** Removes what a process may have kept that died before it could say so. */
  removeNamed(name: string): Promise<void>;

  /** Removes what killed servers left lying about on this machine: `isLeft` says it of a file's name. */
  clean(isLeft: (name: string) => Promise<boolean>): Promise<void>;
}
