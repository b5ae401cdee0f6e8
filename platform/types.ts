/** What a runtime gives the program; see `mod.ts`. */

/** The WebGPU of a runtime: its own, or that of Chromium as a native addon. */
export type GpuName = "deno" | "browser" | "dawn";

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

/** A file that is written by ranges, after what it has. */
export interface OutputFile extends Disposable {
  /** Bytes. */
  size(): Promise<number>;
  /** Fills `target` or a part of it from byte `position` on; gives the count of bytes. */
  read(position: number, target: Uint8Array): Promise<number>;
  write(position: number, bytes: Uint8Array): Promise<void>;
  /** Throws away what it has. */
  truncate(): Promise<void>;
  /** Waits until the disk has it. */
  sync(): Promise<void>;
}

export interface ProgramOptions {
  /** Where it starts. */
  readonly folder: string;
  /** Its variables; it has no others. */
  readonly environment: Record<string, string>;
}

/** A program that runs. */
export interface Program {
  readonly stdin: WritableStream<Uint8Array>;
  readonly stdout: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly stderr: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Whether it ended well, when it has. */
  readonly isDone: Promise<boolean>;
  /** Ends it at once. @throws {Error} where it has ended by itself */
  kill(): void;
}
