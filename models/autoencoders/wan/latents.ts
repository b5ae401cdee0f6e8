/** Numbers of latents. */

/** Latent frames of a video; numbers of frames that are not 1 + k·temporal are rounded as the reference does. */
export function latentFrameCount(numFrames: number, temporal: number): number {
  const rounded = numFrames % temporal === 1
    ? numFrames
    : Math.floor(numFrames / temporal) * temporal + 1;
  return Math.floor((rounded - 1) / temporal) + 1;
}
