/** A span for each request that is answered. */

import type { Context, MiddlewareHandler } from "hono";
import type { AppEnv } from "../services.ts";
import type { Tracing } from "./tracing.ts";

/**
 * Answers requests within spans that go on the client's trace, if it sent one.
 *
 * @param routeOf gives the pattern of a request's path, once it is answered
 */
export function tracedRequests(
  tracing: Tracing,
  routeOf: (c: Context<AppEnv>) => string | undefined,
): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const { method } = c.req;
    const parent = c.req.header("traceparent");
    const attributes = { "http.request.method": method };
    const span = tracing.begin(method, { parent, isServer: true, attributes });
    try {
      await span.run(next);
    } finally {
      const { status } = c.res;
      const route = routeOf(c);
      const job = c.get("job");
      span.end({
        ...(route === undefined ? {} : { name: `${method} ${route}` }),
        ...(status >= 500 ? { failure: String(status) } : {}),
        attributes: {
          "http.response.status_code": status,
          ...(route === undefined ? {} : { "http.route": route }),
          ...(job === undefined ? {} : { "denoise.job.id": job }),
        },
      });
    }
  };
}
