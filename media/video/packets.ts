/** Packets of a file that came from outside, as FFmpeg's `framecrc` lists them. */

import type { Ffmpeg } from "./ffmpeg.ts";
import { openUntrusted, PROBE_LIMITS } from "./video_file.ts";

/** A listing: what it says of each track, and the packets of the first one. */
export class Packets {
  readonly #headers = new Map<string, string>();
  #count = 0;
  #begin = Infinity;
  #end = -Infinity;
  #rest = "";

  get count(): number {
    return this.#count;
  }

  /** How long the first track lasts by its time stamps; NaN where it has no unit of time. */
  get seconds(): number {
    const [ticks = 0, perSecond = 0] = (this.header("tb 0") ?? "").split("/").map(Number);
    return (this.#end - this.#begin) * ticks / perSecond;
  }

  /** Such as of `codec_id 0`. */
  header(key: string): string | undefined {
    return this.#headers.get(key);
  }

  /** Says that this was all. */
  finish(): void {
    this.add("\n");
  }

  /** Takes lines `#key track: value` and `track, dts, pts, duration, size, checksum`; the last may be cut. */
  add(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    for (const line of lines) this.#addLine(line);
  }

  #addLine(line: string): void {
    const header = /^#(\w+) (\d+): (.*)/.exec(line);
    if (header) {
      this.#headers.set(`${header[1]} ${header[2]}`, header[3]!);
      return;
    }
    const [track, , pts, duration] = line.split(",").map(Number);
    if (track !== 0 || pts === undefined || duration === undefined) return;
    this.#count++;
    this.#begin = Math.min(this.#begin, pts);
    this.#end = Math.max(this.#end, pts + duration);
  }
}

/** Adds the packets of a file to a listing. */
export async function listPackets(
  ffmpeg: Ffmpeg,
  path: string,
  listing: Packets,
  { tracks, before = [], selected, onSaid, signal }: {
    readonly tracks: "audio" | "all";
    /** Arguments before the file is opened. */
    readonly before?: readonly string[];
    /** Arguments that say which tracks are listed, and how many packets. */
    readonly selected: readonly string[];
    readonly onSaid?: (text: string) => void;
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  const stream = ffmpeg.decode({
    inputs: [path],
    signal,
    limits: PROBE_LIMITS,
    arguments: ({ inputs, output }) => [
      ...before,
      ...openUntrusted(inputs[0]!, tracks),
      ...selected,
      ...["-c", "copy", "-f", "framecrc", output],
    ],
    ...(onSaid && { onSaid }),
  });
  const text = stream as ReadableStream<Uint8Array<ArrayBuffer>>;
  for await (const part of text.pipeThrough(new TextDecoderStream())) listing.add(part);
}
