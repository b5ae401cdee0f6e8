/** What a video file says of itself. */

import { converterOf, namedSpace } from "../color/color_space.ts";
import { Slots } from "../isolated/slots.ts";
import type { Ffmpeg } from "./ffmpeg.ts";
import { listPackets, Packets } from "./packets.ts";
import { MAX_VIDEO_PIXELS, videoError } from "./video_file.ts";
import { VideoError } from "./video_work.ts";

export interface VideoInfo {
  /** Pixels per row as they are shown, before any rotation that the file asks for. */
  readonly width: number;
  readonly height: number;
  /** How much wider than high a stored pixel is shown, where it is no square. */
  readonly pixelAspect?: number;
  readonly hasAlpha?: true;
  /** Decoder that the file needs, where FFmpeg would take one that leaves out its alpha. */
  readonly decoder?: string;
  /** Primaries and transfer characteristics, where the file names others than those of BT.709. */
  readonly colors?: VideoColors;
  /** Number of frames, at least 1; those beyond 100 000 are not counted. */
  readonly frames: number;
  /** Frames per second, on average. */
  readonly fps: number;
  /** Codec of the first audio track, such as `aac`. */
  readonly audioCodec?: string;
}

interface VideoColors {
  /** Such as `bt709`, or `unknown`. */
  readonly primaries: string;
  readonly transfer: string;
}

/** Packets of a track that are looked at, over an hour of them: a file may hold millions of nothing. */
const MAX_PACKETS = 100_000;

/** Frames per second of a file that has one frame and does not say how long it lasts. */
const STILL_FPS = 24;

/** Longest video that is read, in seconds: a day. */
const MAX_SECONDS = 24 * 60 * 60;

/** Most frames per second of a video that is read. */
const MAX_FPS = 1000;

/** Two videos are looked at the same time, and so many wait. */
const probing = new Slots({ count: 2, perClient: 1, waiting: 128 });

/** Reads the container: sizes, frames and times of the packets. */
export async function probeVideo(
  ffmpeg: Ffmpeg,
  path: string,
  { signal }: { signal?: AbortSignal } = {},
): Promise<VideoInfo> {
  return await probing.run(async () => {
    const listing = new Listing();
    let traits: Partial<VideoInfo> = {};
    const most = String(MAX_PACKETS);
    try {
      await listPackets(ffmpeg, path, listing, {
        tracks: "all",
        before: ["-loglevel", "info", "-nostats"],
        selected: ["-map", "0:v:0?", "-map", "0:a:0?", "-frames:v", most, "-frames:a", most],
        onSaid: (text) => traits = videoTraits(text),
        signal,
      });
    } catch (error) {
      throw videoError(error);
    }
    return { ...listing.end(), ...traits };
  }, { signal });
}

/** What stands for a pixel format's colours where matrix, primaries and transfer have one name. */
const ONE_NAME = /^(?:bt709|bt470bg|smpte170m|smpte240m)$/;

/** Pixel formats with alpha, by FFmpeg's names; those of palettes may have it. */
const WITH_ALPHA = /^(?:yuva|rgba|argb|bgra|abgr|gbrap|ya8|ya16|pal8)/;

/** Decoders that read the alpha which VP8 and VP9 keep beside the picture. */
const ALPHA_DECODERS: Readonly<Record<string, string>> = { vp8: "libvpx", vp9: "libvpx-vp9" };

/** What a line of FFmpeg tells of the first track, such as `Video: vp9, yuv420p(tv, bt2020nc/bt2020/smpte2084)`. */
function videoTraits(said: string): Partial<VideoInfo> {
  const line = /Stream #0:0\b.*: Video: (\w+).*?, (\w+)(?:\(([^()]*))?/.exec(said);
  const [, codec = "", format = "", list = ""] = line ?? [];
  const decoder = /^ {0,40}alpha_mode {0,40}: 1$/im.test(said) ? ALPHA_DECODERS[codec] : undefined;
  const colors = colorsIn(list);
  return {
    ...((decoder || WITH_ALPHA.test(format)) && { hasAlpha: true as const }),
    ...(decoder && { decoder }),
    ...(colors && { colors }),
  };
}

function colorsIn(list: string): VideoColors | undefined {
  for (const word of list.split(", ")) {
    const names = word.split("/");
    if (names.length !== 3 && !ONE_NAME.test(word)) continue;
    const [primaries, transfer] = names.length === 3 ? names.slice(1) : [word, word];
    const space = namedSpace(primaries!, transfer!);
    if (space && converterOf(space) === undefined) return undefined;
    if (space) return { primaries: primaries!, transfer: transfer! };
    throw new VideoError(
      `Cannot use the video: its colours are those of primaries ${primaries} and transfer ` +
        `characteristics ${transfer}, as of HDR; convert it to BT.709 first`,
    );
  }
  return undefined;
}

/** A listing of a video track and perhaps an audio track. */
export class Listing extends Packets {
  end(): VideoInfo {
    this.finish();
    if (this.header("media_type 0") === "audio") {
      throw new VideoError("Cannot use the video: it has sound and no picture");
    }
    const [stored = 0, height = 0] = (this.header("dimensions 0") ?? "").split("x").map(Number);
    const [across = 0, down = 0] = (this.header("sar 0") ?? "").split("/").map(Number);
    const aspect = across > 0 && down > 0 ? across / down : 1;
    const width = Math.round(stored * aspect);
    const { count: frames, seconds } = this;
    if (!(width > 0 && height > 0 && frames > 0)) {
      throw new VideoError("Cannot read video: the file holds no image");
    }
    const fps = seconds > 0 ? frames / seconds : STILL_FPS;
    const audioCodec = this.header("codec_id 1");
    checkLimits(width * height, seconds, fps, `${width}x${height}`);
    return {
      width,
      height,
      frames,
      fps,
      ...(aspect !== 1 && { pixelAspect: aspect }),
      ...(audioCodec !== undefined && { audioCodec }),
    };
  }
}

function checkLimits(pixels: number, seconds: number, fps: number, size: string): void {
  if (pixels > MAX_VIDEO_PIXELS) {
    throw new VideoError(
      `Cannot read video: its frames are ${size}, and at most ${MAX_VIDEO_PIXELS} pixels are ` +
        "allowed; scale it down first",
    );
  }
  if (seconds > MAX_SECONDS) {
    throw new VideoError(
      `Cannot read video: it lasts ${Math.round(seconds)} s by its time stamps, and at most ` +
        `${MAX_SECONDS} s are allowed; cut it first`,
    );
  }
  if (fps > MAX_FPS) {
    throw new VideoError(
      `Cannot read video: it has ${
        Math.round(fps)
      } frames per second, and at most ${MAX_FPS} are ` +
        "allowed; lower its rate first",
    );
  }
}
