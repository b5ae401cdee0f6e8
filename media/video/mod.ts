/** Video files: H.264 MP4 out, any common container in. */

export {
  AudioError,
  type AudioInfo,
  probeAudio,
  readAudio,
  type ReadAudioOptions,
} from "./audio.ts";
export { type Ffmpeg, FfmpegError } from "./ffmpeg.ts";
export { findFfmpeg, type FindFfmpegOptions } from "./find_ffmpeg.ts";
export { probeVideo, type VideoInfo } from "./probe.ts";
export { readVideo, type ReadVideoOptions } from "./read.ts";
export { checkVideoWork, VideoError } from "./video_work.ts";
export { crfOfQuality, DEFAULT_X264_PRESET, X264_PRESETS, type X264Preset } from "./quality.ts";
export {
  type AudioFile,
  type VideoFormat,
  type VideoWriter,
  writeVideo,
  type WriteVideoOptions,
} from "./write.ts";
