/** Small videos that are much work to read, or that claim more than they hold. */

import { crc32 } from "node:zlib";
import type { Ffmpeg } from "../../media/video/mod.ts";

/**
 * Makes a video with FFmpeg's own arguments.
 *
 * @param frames how many, 64x64 at one per second, each of one shade
 * @param args of its output, with `-f`
 */
export async function makeVideo(
  ffmpeg: Ffmpeg,
  path: string,
  frames: number,
  ...args: readonly string[]
): Promise<void> {
  const sink = ffmpeg.encode({
    inputs: [],
    arguments: ({ stdin, output }) => [
      ...["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "64x64", "-r", "1", "-i", stdin],
      ...args,
      output,
    ],
  }, path);
  for (let i = 0; i < frames; i++) await sink.write(new Uint8Array(64 * 64 * 3).fill(40 * i));
  await sink.finish();
}

/** Makes a video of three frames with years between them. */
export async function makeGap(ffmpeg: Ffmpeg, path: string): Promise<void> {
  const filter = ["-vf", "setpts=PTS*100000000"];
  await makeVideo(ffmpeg, path, 3, ...filter, "-c:v", "libx264", "-f", "matroska");
}

/** Makes a video of a few hundred bytes whose one frame says that it has 16000x16000 pixels. */
export async function makeHugeFrame(ffmpeg: Ffmpeg, path: string): Promise<void> {
  await makeVideo(ffmpeg, path, 1, "-c:v", "png", "-f", "mov");
  const file = await Deno.readFile(path);
  const text = String.fromCharCode(...file);
  const header = new DataView(file.buffer, text.indexOf("IHDR"));
  header.setUint32(4, 16_000);
  header.setUint32(8, 16_000);
  header.setUint32(17, crc32(file.subarray(header.byteOffset, header.byteOffset + 17)));
  const sample = new DataView(file.buffer, text.indexOf("png ", text.indexOf("stsd")));
  sample.setUint16(28, 16_000);
  sample.setUint16(30, 16_000);
  await Deno.writeFile(path, file);
}
