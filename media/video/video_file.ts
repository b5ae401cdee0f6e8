/** What FFmpeg is allowed to do with files that came from outside, and how their faults are named. */

import { FfmpegError, type FfmpegLimits, FfmpegTimeError } from "./ffmpeg.ts";
import { VideoError } from "./video_work.ts";

/** Containers that are read: none names other files or addresses, as playlists do. */
const CONTAINERS = "mov,matroska,avi,gif,mpeg,mpegts,flv,ogg,asf,wav";
/** Those of sound alone. */
const AUDIO_CONTAINERS = ",mp3,flac,aac,aiff,caf,w64";

/** Decoders of what cameras, phones and editors write and wrote; only libvpx reads the alpha of VP8 and VP9. */
const VIDEO_DECODERS = `
  h264 hevc vp8 vp9 libdav1d libaom-av1 av1 mpeg4 mpeg2video mpeg1video h263 h263i flv vc1 wmv1
  wmv2 wmv3 msmpeg4v1 msmpeg4v2 msmpeg4 theora mjpeg mjpegb gif png prores dnxhd dvvideo ffv1
  libvpx libvpx-vp9 huffyuv ffvhuff utvideo qtrle rpza svq1 svq3 cinepak rawvideo
`;

/** Decoders of sound that goes into an MP4 only after it was decoded, or is asked what it is. */
const AUDIO_DECODERS = `
  aac aac_latm mp3 mp3float mp2 mp2float ac3 eac3 flac alac opus libopus vorbis libvorbis wmav1
  wmav2 wmapro amrnb amrwb adpcm_ima_qt adpcm_ima_wav adpcm_ms pcm_s16le pcm_s16be pcm_s24le
  pcm_s24be pcm_s32le pcm_s32be pcm_f32le pcm_f32be pcm_u8 pcm_s8 pcm_alaw pcm_mulaw pcm_bluray
`;

function listed(names: string): string {
  return names.trim().split(/\s+/).join();
}

/** 4096 x 4096: the largest width times height of a video that is read. */
export const MAX_VIDEO_PIXELS: number = 2 ** 24;

export const PROBE_LIMITS: FfmpegLimits = { memoryBytes: 640e6, timeoutMs: 20_000 };

export const READ_LIMITS: FfmpegLimits = { memoryBytes: 1e9, timeoutMs: 60_000 };

/** Arguments that open an untrusted file: no other files or addresses, no large frames, no rare decoders. */
export function openUntrusted(input: string, tracks: "audio" | "all"): string[] {
  const decoders = tracks === "audio" ? AUDIO_DECODERS : VIDEO_DECODERS + AUDIO_DECODERS;
  const containers = CONTAINERS + (tracks === "audio" ? AUDIO_CONTAINERS : "");
  return [
    ...["-protocol_whitelist", "file,pipe", "-format_whitelist", containers],
    ...["-codec_whitelist", listed(decoders), "-max_pixels", String(MAX_VIDEO_PIXELS)],
    // More threads hold more frames.
    ...["-threads", "2", "-i", input],
  ];
}

/** Why a file was not read, and what to send instead; nothing for what is no failure of FFmpeg. */
export function unreadable(
  error: unknown,
  { size, formats }: { readonly size: string; readonly formats: string },
): string | undefined {
  if (!(error instanceof FfmpegError)) return undefined;
  return error instanceof FfmpegTimeError
    ? `${error.message}; send a ${size} one`
    : `it is damaged or of no known format; send ${formats}`;
}

/** Turns a failure of FFmpeg into one of the file that it read. */
export function videoError(error: unknown): unknown {
  const formats = "MP4, MOV, WebM, MKV, AVI or GIF";
  const why = unreadable(error, { size: "shorter or smaller", formats });
  return why === undefined ? error : new VideoError(`Cannot read video: ${why}`, { cause: error });
}
