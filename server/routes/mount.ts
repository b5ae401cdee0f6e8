/** A path with its methods; every other method is answered with 405. */

import type { Context } from "hono";
import { ApiError } from "../contract/errors.ts";
import type { App, AppEnv } from "../services.ts";

type RouteHandler = (c: Context<AppEnv>) => Response | Promise<Response>;

/** The methods of a path. GET includes HEAD. */
export type Methods = Partial<Record<"GET" | "POST" | "PUT" | "DELETE", RouteHandler>>;

export function mount(app: App, path: string, methods: Methods): void {
  for (const [method, handler] of Object.entries(methods)) app.on(method, path, handler);
  const allowed = Object.keys(methods).flatMap((name) => name === "GET" ? ["GET", "HEAD"] : name);
  app.all(path, (c) => {
    throw new ApiError(
      405,
      `Cannot ${c.req.method} ${c.req.path}: this path takes ${allowed.join(", ")}`,
      {
        code: "method_not_allowed",
        detail: "Method Not Allowed",
        headers: { allow: allowed.join(", ") },
      },
    );
  });
}
