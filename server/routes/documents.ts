/** `GET /openapi.json` and `GET /docs`: the service in its own words. */

import { docsPage } from "../openapi/docs_page.ts";
import { openApiDocument } from "../openapi/document.ts";
import type { App, Services } from "../services.ts";
import { mount } from "./mount.ts";

/** Stands for the address of the server until the page is sent. */
const ANY_SERVER = "https://server.invalid";

/** The page has styles of its own, and nothing else may be fetched or run for it. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/** Mounts the documents. */
export function mountDocuments(app: App, { settings }: Services): void {
  // Nobody needs a key for them, so that they cost next to nothing.
  let made: { readonly json: string; readonly page: string } | undefined;
  const documents = () => {
    if (made) return made;
    const document = openApiDocument(settings.apiKeys.length > 0, settings.publicUrl);
    return made = { json: JSON.stringify(document), page: docsPage(document, ANY_SERVER) };
  };
  mount(app, "/openapi.json", {
    GET: (c) => c.body(documents().json, 200, { "content-type": "application/json" }),
  });
  mount(app, "/docs", {
    GET: (c) => {
      const base = settings.publicUrl ?? new URL(c.req.url).origin;
      return c.html(documents().page.replaceAll(ANY_SERVER, () => base), 200, {
        "content-security-policy": POLICY,
      });
    },
  });
}
