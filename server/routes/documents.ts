/** `GET /openapi.json` and `GET /docs`: the service in its own words. */

import type { Context } from "hono";
import { docsPage } from "../openapi/docs_page.ts";
import { openApiDocument } from "../openapi/document.ts";
import type { Operation } from "../openapi/operation.ts";
import type { AppEnv, Services } from "../services.ts";

/** Stands for the address of the server until the page is sent. */
const ANY_SERVER = "https://server.invalid";

/** The page has styles of its own, and nothing else may be fetched or run for it. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

interface Documents {
  readonly json: string;
  readonly page: string;
}

/** Nobody needs a key for them, so each is made once. */
const made = new WeakMap<Services, Documents>();

function documentsOf(services: Services, operations: readonly Operation[]): Documents {
  const known = made.get(services);
  if (known) return known;
  const { apiKeys, publicUrl } = services.settings;
  const document = openApiDocument(operations, apiKeys.length > 0, publicUrl);
  const page = docsPage(document, operations, ANY_SERVER);
  const documents = { json: JSON.stringify(document), page };
  made.set(services, documents);
  return documents;
}

/** The document for programs. */
export function openApi(
  c: Context<AppEnv>,
  services: Services,
  operations: readonly Operation[],
): Response {
  const { json } = documentsOf(services, operations);
  return c.body(json, 200, { "content-type": "application/json" });
}

/** The document for people. */
export function docs(
  c: Context<AppEnv>,
  services: Services,
  operations: readonly Operation[],
): Response {
  const base = services.settings.publicUrl ?? new URL(c.req.url).origin;
  const { page } = documentsOf(services, operations);
  return c.html(page.replaceAll(ANY_SERVER, () => base), 200, {
    "content-security-policy": POLICY,
  }) as Response;
}
