/**
 * Giving up on clients that stop sending.
 *
 * @module
 */

import { ApiError } from "../contract/errors.ts";

/** How long a body may pause, in milliseconds. */
const IDLE_MS = 30_000;

/**
 * A body that fails when its sender pauses for too long. (Clients that never end
 * their headers are left to the HTTP server, which lets them go after a minute.)
 *
 * @param body of a request
 * @param idleMs longest pause, in milliseconds
 * @returns the same bytes; fails with an {@link ApiError} of status 408
 */
export function limitIdle(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  idleMs: number = IDLE_MS,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      const late = Promise.withResolvers<never>();
      const timer = setTimeout(() => late.reject(stalled(idleMs)), idleMs);
      try {
        const { done, value } = await Promise.race([reader.read(), late.promise]);
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        reader.cancel(error).catch(() => {});
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

function stalled(idleMs: number): ApiError {
  return new ApiError(
    408,
    `Cannot read the body: nothing came for ${idleMs / 1000} s; send the request again`,
    { code: "body_stalled", headers: { connection: "close" } },
  );
}
