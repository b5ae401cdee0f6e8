/** Frames of video files by WebCodecs: a bundle of its own, which a tab loads with the first file that it reads. */
import { ALL_FORMATS, BlobSource, Input, type InputVideoTrack, VideoSampleSink } from "mediabunny";

interface TrackInfo {
  /** Pixels as they are shown. */
  readonly width: number;
  readonly height: number;
  readonly frames: number;
  /** Frames per second, on average. */
  readonly fps: number;
}

interface TimedFrame {
  readonly width: number;
  readonly height: number;
  /** RGB, row by row. */
  readonly data: Uint8Array<ArrayBuffer>;
  /** Seconds from the first frame's begin to this one's, and how long it is shown. */
  readonly time: number;
  readonly duration: number;
}

/** Frames per second of a file that does not say how long its frames are shown. */
const STILL_FPS = 24;

async function withTrack<T>(blob: Blob, use: (track: InputVideoTrack) => Promise<T>): Promise<T> {
  using input = new Input({ source: new BlobSource(blob), formats: ALL_FORMATS });
  // Of files that are shorter than any header it throws.
  if (!await input.canRead().catch(() => false)) {
    throw new Error("Cannot read video: it is of no known format; give MP4, MOV, WebM or MKV");
  }
  const track = await input.getPrimaryVideoTrack();
  if (!track) throw new Error("Cannot use the video: it has no picture");
  if (!("VideoDecoder" in globalThis) || !await track.canDecode()) {
    throw new Error(
      `Cannot read video: this browser does not decode ${
        await track.getCodecParameterString() ?? "its codec"
      }; convert it to H.264 or VP9, or give frames`,
    );
  }
  return await use(track);
}

/** What the file says of itself. @throws {Error} for a file that this browser does not read */
export async function probe(blob: Blob): Promise<TrackInfo> {
  return await withTrack(blob, async (track) => {
    const { packetCount: frames, averagePacketRate: rate } = await track.computePacketStats();
    if (frames === 0) throw new Error("Cannot read video: the file holds no image");
    const [width, height] = [await track.getDisplayWidth(), await track.getDisplayHeight()];
    return { width, height, frames, fps: Number.isFinite(rate) && rate > 0 ? rate : STILL_FPS };
  });
}

/** Gives the frames in the order in which they are shown, until `take` says that it has enough. */
export async function read(
  blob: Blob,
  take: (frame: TimedFrame) => boolean,
  signal?: AbortSignal,
): Promise<void> {
  await withTrack(blob, async (track) => {
    let canvas: OffscreenCanvas | undefined;
    let first: number | undefined;
    for await (const sample of new VideoSampleSink(track).samples()) {
      try {
        signal?.throwIfAborted();
        const { displayWidth: width, displayHeight: height, timestamp, duration } = sample;
        canvas ??= new OffscreenCanvas(width, height);
        const context = canvas.getContext("2d", { willReadFrequently: true })!;
        // Transparent pixels become white.
        context.fillStyle = "white";
        context.fillRect(0, 0, width, height);
        sample.draw(context, 0, 0, width, height);
        const { data } = context.getImageData(0, 0, width, height);
        const rgb = new Uint8Array(width * height * 3);
        for (let i = 0, to = 0; i < data.length; i += 4) {
          rgb[to++] = data[i]!;
          rgb[to++] = data[i + 1]!;
          rgb[to++] = data[i + 2]!;
        }
        first ??= timestamp;
        if (!take({ width, height, data: rgb, time: timestamp - first, duration })) return;
      } finally {
        sample.close();
      }
    }
  });
}
