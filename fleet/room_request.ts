/** What the memory of a device must suffice for, of a job's request. */

import type { RoomRequest } from "../engine/types.ts";
import { ROOM_SETTINGS } from "../models/pipeline/types.ts";
import type { ImageRequest } from "../server/images/image_request.ts";
import { VIDEO_PREVIEWS, type VideoRequest } from "../server/videos/video_request.ts";

/** What the room that a request takes follows from. */
const FIELDS = [
  ...["taskType", "width", "height", "numFrames", "upscalingScale"] as const,
  ...ROOM_SETTINGS,
  ...["images", "hasMask", "hasControl", "references", "previews"] as const,
] satisfies readonly (keyof RoomRequest)[];

/** A request without what takes no room, so that requests of one size are alike. */
export function onlyRoom(request: RoomRequest): RoomRequest {
  const entries = FIELDS.map((field) => [field, request[field]] as const);
  return Object.fromEntries(
    entries.filter(([, value]) => value !== undefined && value !== false && value !== 0),
  ) as unknown as RoomRequest;
}

/**
 * The part of a job's request that its room follows from.
 *
 * @returns for `Engine.checkRoom()`
 */
export function roomRequest(request: unknown): RoomRequest {
  const { images = [], references, mask, video, control, previews = VIDEO_PREVIEWS, ...others } =
    request as ImageRequest & Partial<VideoRequest>;
  return onlyRoom({
    ...others,
    images: images.length,
    references: references?.length ?? 0,
    hasMask: mask !== undefined && video === undefined,
    hasControl: control !== undefined,
    previews,
  });
}
