/** Losses of H.264 in images that videos are made from: models that were trained on frames of videos expect them. */

import type { InputImage, ModelInfo, SamplingSettings } from "../engine/types.ts";
import { type Ffmpeg, probeVideo, readVideo, VideoError, writeVideo } from "../media/video/mod.ts";
import { removeFile, temporaryPath } from "../platform/mod.ts";

/** The images as a video of one frame has them, with the constant rate factor that the request says, else the model's own. */
export async function withVideoLosses(
  images: readonly InputImage[],
  { imageCrf }: Pick<SamplingSettings, "imageCrf">,
  info: Pick<ModelInfo, "imageCrf">,
  findFfmpeg: () => Promise<Ffmpeg>,
  signal?: AbortSignal,
): Promise<InputImage[]> {
  const crf = imageCrf ?? info.imageCrf ?? 0;
  if (crf === 0 || images.length === 0) return [...images];
  const ffmpeg = await findFfmpeg();
  const made: InputImage[] = [];
  for (const image of images) made.push(await compressed(ffmpeg, image, crf, signal));
  return made;
}

async function compressed(
  ffmpeg: Ffmpeg,
  image: InputImage,
  crf: number,
  signal: AbortSignal | undefined,
): Promise<InputImage> {
  const { width, height } = image;
  const path = temporaryPath(".mp4");
  try {
    const size = { width, height };
    const file = writeVideo(ffmpeg, { ...size, path, fps: 1, crf, preset: "veryfast", signal });
    await file.write(image.data);
    await file.finish();
    const info = await probeVideo(ffmpeg, path, signal ? { signal } : {});
    for await (const data of readVideo(ffmpeg, path, info, { ...size, maxFrames: 1, signal })) {
      return { ...image, data };
    }
    throw new VideoError("Cannot compress an image: FFmpeg gave no frame");
  } finally {
    await removeFile(path).catch(() => {});
  }
}
