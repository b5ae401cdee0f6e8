/** `GET /openapi.json`, `GET /docs`, the page, and paths of other servers that are told to be absent. */

import { createHash } from "node:crypto";
import type { Context } from "hono";
import { DOCS_SCRIPT, docsPage } from "../openapi/docs_page.ts";
import { openApiDocument } from "../openapi/document.ts";
import type { Operation } from "../openapi/operation.ts";
import type { App, AppEnv, Services } from "../services.ts";
import { ApiError } from "../contract/errors.ts";
import { playground } from "../playground/page.ts";

/** Stands for the address of the server until the page is sent. */
const ANY_SERVER = "https://server.invalid";

/** The page has a style and a script of its own, and asks nobody but this server for anything. */
function docsPolicy(): string {
  const hash = createHash("sha256").update(DOCS_SCRIPT).digest("base64");
  return [
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    `script-src 'sha256-${hash}'`,
    "connect-src 'self'",
    "img-src blob: data:",
    "media-src blob:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

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
    "content-security-policy": docsPolicy(),
  }) as Response;
}

/** Where the files of the page are. */
export const PLAYGROUND_FOLDER = "/playground/";

function check({ settings }: Services): void {
  if (settings.playground) return;
  const message = "Cannot show the playground: the server was started with --no-playground";
  throw new ApiError(404, message, { code: "not_found" });
}

/** The page; results may be on another origin. */
export function page(c: Context<AppEnv>, services: Services): Response {
  check(services);
  const { html, policy } = playground();
  const elsewhere = services.storage?.origin ? ` ${services.storage.origin}` : "";
  return c.html(html, 200, {
    "content-security-policy": policy.replace(
      /((?:img|media|connect)-src [^;]*)/g,
      `$1${elsewhere}`,
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
  }) as Response;
}

export function file(c: Context<AppEnv>, services: Services): Response {
  check(services);
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
    : c.body(asset.bytes, 200, headers);
}

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
