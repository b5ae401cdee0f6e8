/** Paths that clients of this API know and that this server does not have: 404 with a reason. */

import { ApiError } from "../contract/errors.ts";
import type { App } from "../services.ts";

const ABSENT: readonly (readonly [what: string, paths: readonly string[]])[] = [
  ["image variations", ["/v1/images/variations"]],
  ["remixes of videos", ["/v1/videos/:id/remix"]],
  ["videos whose answer waits for them", ["/v1/videos/sync"]],
  ["edits of videos", ["/v1/videos/edits"]],
  ["extensions of videos", ["/v1/videos/extensions"]],
  ["characters", ["/v1/videos/characters", "/v1/videos/characters/*"]],
  ["a store of files", ["/v1/files", "/v1/files/*"]],
  ["mesh generation", ["/v1/meshes", "/v1/meshes/*"]],
  ["action generation", ["/v1/actions/*"]],
  ["audio", ["/v1/audio/*"]],
  ["text generation", ["/v1/chat/*", "/v1/completions", "/v1/responses", "/v1/text/*"]],
  ["realtime video", ["/v1/realtime_video", "/v1/realtime_video/*"]],
  ["Vertex predictions", ["/vertex_generate"]],
  ["statistics", ["/stats"]],
];

/** Mounts the absent paths. */
export function mountAbsent(app: App): void {
  for (const [what, paths] of ABSENT) {
    for (const path of paths) {
      app.all(path, (c) => {
        throw new ApiError(
          404,
          `Cannot ${c.req.method} ${c.req.path}: this server does not provide ${what}`,
          { code: "not_provided" },
        );
      });
    }
  }
}
