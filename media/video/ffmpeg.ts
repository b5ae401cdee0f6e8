/**
 * One way to call FFmpeg, whichever build of it there is: the system's program, or the one in WebAssembly that comes
 * with denoise.
 */

/** Where a call finds its files; a name for a command line each. */
interface FfmpegFiles {
  /** The inputs, in the order of {@link FfmpegCall.inputs}. */
  readonly inputs: readonly string[];
  /** Where the bytes are that the caller writes. */
  readonly stdin: string;
  /** Where the result goes. */
  readonly output: string;
}

/** What a call may take of the machine. */
export interface FfmpegLimits {
  /** Most memory, in bytes. */
  readonly memoryBytes: number;
  /** Most time, in milliseconds; as long as it takes when left out. */
  readonly timeoutMs?: number;
}

/** One call. */
export interface FfmpegCall {
  /** The arguments. */
  arguments(files: FfmpegFiles): string[];
  /** Absolute paths of files that it reads. */
  readonly inputs: readonly string[];
  /** Called before the call ends well, with the last of what FFmpeg said; arguments may ask for more than errors. */
  onSaid?(text: string): void;
  /** Limits of the call; left out for one that reads nothing but our own frames. */
  readonly limits?: FfmpegLimits;
  /** Stops it; it then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The way into a call that makes a file. */
export interface FfmpegSink {
  /** Hands over bytes; resolves when more may come. After a failure it does nothing. */
  write(bytes: Uint8Array): Promise<void>;
  /** Says that this was all, and waits for the file. */
  finish(): Promise<void>;
}

/** A build of FFmpeg. */
export interface Ffmpeg {
  /** Version and kind of ffmpeg, for people. */
  readonly description: string;
  /** Starts a call that reads what it is given and makes a file. */
  encode(call: FfmpegCall, output: string): FfmpegSink;
  /**
   * Starts a call whose result is a stream of bytes, which fails with an {@link FfmpegError} where the call does. It
   * must be read to its end, or cancelled.
   */
  decode(call: FfmpegCall): ReadableStream<Uint8Array>;
}

/** Thrown when FFmpeg ends with an error. */
export class FfmpegError extends Error {
  /** Tells it from other errors in logs. */
  override readonly name: string = "FfmpegError";
}

/** Thrown when FFmpeg was stopped because it took too long. */
export class FfmpegTimeError extends FfmpegError {
  /** Tells it from other errors in logs. */
  override readonly name = "FfmpegTimeError";
}

/** How many lines of what FFmpeg said an error repeats. */
const REPORTED_LINES = 4;

/** The error of a failed call. */
export function ffmpegError(said: string): FfmpegError {
  const lines = said.trim().split(/[\r\n]+/).slice(-REPORTED_LINES);
  const text = lines.join("; ").replaceAll(/(?:file:)?\/[^\s:;'"]+/g, "the file");
  return new FfmpegError(`FFmpeg failed: ${text || "it gave no reason"}`);
}
