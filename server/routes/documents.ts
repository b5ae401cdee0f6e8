/**
 * `GET /openapi.json` and `GET /docs`: the service in its own words.
 *
 * @module
 */

import { docsPage } from "../openapi/docs_page.ts";
import { type OpenApiDocument, openApiDocument } from "../openapi/document.ts";
import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** The page has styles of its own, and nothing else may be fetched or run for it. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/**
 * Mounts the documents.
 *
 * @param app to mount on
 * @param services say whether keys are asked for
 */
export function mountDocuments(app: App, { settings }: Services): void {
  let made: OpenApiDocument | undefined;
  const document = () => made ??= openApiDocument(settings.apiKeys.length > 0, settings.publicUrl);
  mount(app, "/openapi.json", { GET: (c) => c.json(document()) });
  mount(app, "/docs", {
    GET: (c) =>
      c.html(docsPage(document(), settings.publicUrl ?? new URL(c.req.url).origin), 200, {
        "content-security-policy": POLICY,
      }),
  });
}
