/**
 * The clips that a long video is made in: each begins with the last frame of the one before.
 *
 * Source: diffusers `WanAnimate2ProcessVideosInputStep`.
 */

/** Frames that a clip has of the one before. */
export const SHARED_FRAMES = 1;

/** How many clips of a length hold so many frames, at least one. */
export function clipCount(frames: number, clipLength: number): number {
  return Math.max(1, Math.ceil((frames - SHARED_FRAMES) / (clipLength - SHARED_FRAMES)));
}

export function clipStart(clip: number, clipLength: number): number {
  return clip * (clipLength - SHARED_FRAMES);
}

/**
 * Which frame of a video stands at a place: beyond its end it runs backwards, and forwards again.
 */
export function mirrored(place: number, frames: number): number {
  const turn = place % (2 * frames);
  return turn < frames ? turn : 2 * frames - 1 - turn;
}
