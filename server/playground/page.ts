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
import { appFiles, ICON, THEMES } from "./app.ts";
import { MODULES, PACKAGES, STYLES } from "./sources.ts";

/** A file for a browser. */
interface Asset {
  /** Content type of the file. */
  readonly type: string;
  /** The file, as it is and compressed. */
  readonly bytes: Uint8Array<ArrayBuffer>;
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
  /** Names of the files that the page loads at once; others come when they are needed. */
  readonly base: readonly string[];
}

let made: Playground | undefined;

/** The playground, made when it is first asked for. */
export function playground(): Playground {
  return made ??= make();
}

function make(): Playground {
  const assets = new Map<string, Asset>();
  const add = (name: string, type: string, bytes: Uint8Array<ArrayBuffer>) => {
    assets.set(name, { type, bytes, gzip: new Uint8Array(gzipSync(bytes, { level: 9 })) });
  };
  const addText = (name: string, type: string, text: string) =>
    add(name, `text/${type}; charset=utf-8`, new TextEncoder().encode(text));
  const scripts = new Map(
    Object.entries(MODULES).map(([name, source]) => [name, withoutTypes(source)]),
  );
  for (const [name, source] of Object.entries(PACKAGES)) scripts.set(packageFile(name), source);
  for (const [name, text] of scripts) addText(name, "javascript", text);
  addText(STYLE, "css", Object.values(STYLES).join("\n"));
  for (const [name, [type, bytes]] of appFiles("../../")) add(name, type, bytes);
  const digest = createHash("sha256");
  for (const { bytes } of assets.values()) digest.update(bytes);
  const version = digest.digest("hex").slice(0, 16);
  const folder = `playground/${version}`;
  const imports = JSON.stringify({
    imports: Object.fromEntries(
      Object.keys(PACKAGES).map((name) => [name, `./${folder}/${packageFile(name)}`]),
    ),
  });
  const modules = [...loadedBy("main.ts", scripts)];
  return {
    html: page(folder, imports, modules),
    policy: policy(imports),
    version,
    assets,
    base: [STYLE, ...modules],
  };
}

const STYLE = "style.css";
const COMMENTS = /^ *(?:\/\*\*[^]*?\*\/|\/\/.*)\n/gm;

/** A module as browsers read it; comments that stand by themselves are for readers of the source. */
function withoutTypes(source: string): string {
  return stripTypeScriptTypes(source).replace(COMMENTS, "");
}

/** A module and what it imports, but nothing that is imported when it is needed. */
function loadedBy(
  name: string,
  scripts: ReadonlyMap<string, string>,
  found: Set<string> = new Set(),
): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  for (const [, from = ""] of scripts.get(name)!.matchAll(/^(?:import|}) .*?from "(.*)";$/gm)) {
    loadedBy(from.startsWith("./") ? from.slice(2) : packageFile(from), scripts, found);
  }
  return found;
}

/** `preact/hooks` as `preact-hooks.js`. */
function packageFile(name: string): string {
  return `${name.replaceAll("/", "-")}.js`;
}

function page(folder: string, imports: string, modules: readonly string[]): string {
  // Each module is fetched at once, not when the one that imports it has come.
  const themes = THEMES.map(([scheme, colour]) =>
    `<meta name="theme-color" media="(prefers-color-scheme: ${scheme})" content="${colour}">`
  );
  const preloads = modules.map((name) => `<link rel="modulepreload" href="${folder}/${name}">`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>denoise</title>
<link rel="icon" href="data:image/svg+xml,${encodeURIComponent(ICON)}">
${themes.join("\n")}
<link rel="manifest" href="${folder}/app.webmanifest">
<link rel="apple-touch-icon" href="${folder}/icon-192.png">
<link rel="stylesheet" href="${folder}/${STYLE}">
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
    "manifest-src 'self'",
    "img-src 'self' blob: data:",
    "media-src 'self' blob:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
