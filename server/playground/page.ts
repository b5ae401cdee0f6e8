/**
 * The playground as what a browser asks for: one page, its modules and its style.
 *
 * The modules are TypeScript in `playground/`, checked by the gate. A browser gets them without their types, which Deno strips
 * when the page is first asked for: so there is no build, and nothing beside the source that could be out of date. They
 * write elements as functions, because JSX would need more than that.
 */

import { createHash } from "node:crypto";
import { stripTypeScriptTypes } from "node:module";
import { gzipSync } from "node:zlib";
import { MODULES, PACKAGES, STYLES } from "./sources.ts";

/** A file for a browser. */
interface Asset {
  /** Content type of the file. */
  readonly type: string;
  /** Text of the file, as it is and compressed. */
  readonly text: string;
  readonly gzip: Uint8Array<ArrayBuffer>;
}

/** The page and what it loads. */
interface Playground {
  readonly html: string;
  /** Content-Security-Policy of the page. */
  readonly policy: string;
  /** Names the version in the addresses of assets, which therefore may be kept for ever. */
  readonly version: string;
  /** Files of the page by name. */
  readonly assets: ReadonlyMap<string, Asset>;
}

const ICON = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#4a48c8"/>' +
    '<g fill="#fff"><circle cx="5" cy="11" r="1"/><circle cx="8" cy="9" r="1.5"/><circle cx="11" cy="6" r="2"/></g></svg>',
);

let made: Playground | undefined;

/** The playground, made when it is first asked for. */
export function playground(): Playground {
  return made ??= make();
}

function make(): Playground {
  const assets = new Map<string, Asset>();
  const add = (name: string, type: string, text: string) => {
    const gzip = new Uint8Array(gzipSync(text, { level: 9 }));
    assets.set(name, { type: `${type}; charset=utf-8`, text, gzip });
  };
  for (const [name, source] of Object.entries(MODULES)) {
    add(name, "text/javascript", stripTypeScriptTypes(source));
  }
  for (const [name, source] of Object.entries(PACKAGES)) {
    add(packageFile(name), "text/javascript", source);
  }
  add("style.css", "text/css", Object.values(STYLES).join("\n"));
  const digest = createHash("sha256");
  for (const { text } of assets.values()) digest.update(text);
  const version = digest.digest("hex").slice(0, 16);
  const folder = `playground/${version}`;
  const imports = JSON.stringify({
    imports: Object.fromEntries(
      Object.keys(PACKAGES).map((name) => [name, `./${folder}/${packageFile(name)}`]),
    ),
  });
  return {
    html: page(folder, imports, [...assets.keys()].filter((name) => name !== "style.css")),
    policy: policy(imports),
    version,
    assets,
  };
}

/** `preact/hooks` as `preact-hooks.js`. */
function packageFile(name: string): string {
  return `${name.replaceAll("/", "-")}.js`;
}

function page(folder: string, imports: string, modules: readonly string[]): string {
  // Each module is fetched at once, not when the one that imports it has come.
  const preloads = modules.map((name) => `<link rel="modulepreload" href="${folder}/${name}">`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>denoise</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="${folder}/style.css">
<script type="importmap">${imports}</script>
${preloads.join("\n")}
<script type="module" src="${folder}/main.ts"></script>
</head>
<body><noscript>This page is a program: turn JavaScript on, or use the <a href="docs">API</a>.</noscript></body>
</html>
`;
}

/** Nothing runs but our modules, nothing is sent but to this server; images may be in its bucket. */
function policy(imports: string): string {
  const hash = createHash("sha256").update(imports).digest("base64");
  return [
    "default-src 'none'",
    `script-src 'self' 'sha256-${hash}'`,
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' blob: data:",
    "media-src 'self' blob:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
