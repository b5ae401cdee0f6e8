/** `GET /`: a page to draw on, and the files that it loads. */

import { ApiError } from "../contract/errors.ts";
import { playground } from "../playground/page.ts";
import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** Where the files of the page are. */
export const PLAYGROUND_FOLDER = "/playground/";

/**
 * Mounts the playground.
 *
 * @param services say whether there is one, and where results are
 */
export function mountPlayground(app: App, { settings, storage }: Services): void {
  const check = () => {
    if (settings.playground) return;
    const message = "Cannot show the playground: the server was started with --no-playground";
    throw new ApiError(404, message, { code: "not_found" });
  };
  mount(app, "/", {
    GET: (c) => {
      check();
      const { html, policy } = playground();
      const elsewhere = storage?.origin ? ` ${storage.origin}` : "";
      return c.html(html, 200, {
        "content-security-policy": policy.replace(
          /((?:img|media|connect)-src [^;]*)/g,
          `$1${elsewhere}`,
        ),
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
      });
    },
  });
  mount(app, `${PLAYGROUND_FOLDER}:version/:name`, {
    GET: (c) => {
      check();
      const { version, assets } = playground();
      const asset = assets.get(c.req.param("name") ?? "");
      if (!asset || c.req.param("version") !== version) {
        throw new ApiError(404, "Cannot find this file of the playground: reload the page", {
          code: "not_found",
        });
      }
      const headers = {
        "content-type": asset.type,
        "cache-control": "public, max-age=31536000, immutable",
        vary: "accept-encoding",
      };
      return /\bgzip\b/.test(c.req.header("accept-encoding") ?? "")
        ? c.body(asset.gzip, 200, { ...headers, "content-encoding": "gzip" })
        : c.body(asset.text, 200, headers);
    },
  });
}
