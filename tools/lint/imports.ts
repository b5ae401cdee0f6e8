/**
 * The house rules of the import graph: every arrow points down, no circles, shaders only in
 * `runtime/`.
 *
 * `cli.ts → commands/ → { browser/, node/, mod.ts → library/, fleet/ → server/ } → generation/ → engine/ → report/ → models/ → runtime/`; `client/`, `media/` and `hub/` are
 * leaves that everybody above may use; so is `playground/`, which the server sends to browsers. `browser/playground/` is the
 * same page without a server: parts of the server and of the library in one tab. All stand on `platform/`, which imports nothing of ours. Tests, benches and tools may
 * import anything, and only each other import them.
 */

import { scanImports, stripSource } from "./scan.ts";

interface ImportProblem {
  file: string;
  /** Counted from 1. */
  line: number;
  rule: "direction" | "circle" | "pair" | "shader" | "place" | "missing";
  message: string;
}

/** The spine from the bottom up; a folder may import itself and what stands before it. */
const SPINE = [
  "runtime/",
  "models/",
  "report/",
  "engine/",
  "generation/",
  "server/",
  "fleet/",
  "library/",
  "mod.ts",
  "browser/",
  "node/",
  "browser/playground/",
  "commands/",
  "cli.ts",
];
/** What `import "denoise"` loads of its own; it knows no server, and the server does not know it. */
const LIBRARY = ["library/", "mod.ts", "browser/", "node/"];
const SERVER = ["server/", "fleet/"];
const LEAVES = ["client/", "media/", "hub/", "playground/"];
/** What every layer stands on. */
const GROUND = "platform/";
const ASIDE = ["tests/", "tools/"];

/** Layers whose folders do not import each other; files beside the folders may. */
const WALLED = ["server/", "fleet/", "models/", "runtime/"];

/** Such as `server/jobs`; undefined for a file beside the folders, and for tests. */
function roomOf(path: string, layer: string | undefined): string | undefined {
  if (layer === undefined || !WALLED.includes(layer)) return undefined;
  const [, folder, file] = path.split("/");
  return file === undefined ? undefined : layer + folder;
}

/** What gives a shader away, in code or in a string. */
const SHADER = /@compute\b|\bvar\s*<\s*(?:storage|uniform|workgroup)\b|\.wgsl\b/;

/** `runtime/`, `mod.ts`, …; `tests/` for every test and bench, wherever it lies. */
export function layerOf(path: string): string | undefined {
  if (/_(test|bench)\.tsx?$/.test(path)) return "tests/";
  return [GROUND, ...SPINE, ...LEAVES, ...ASIDE].findLast((layer) =>
    layer.endsWith("/") ? path.startsWith(layer) : path === layer
  );
}

/** Why a file of one layer may not import one of another, or undefined if it may. */
export function forbidden(from: string, to: string): string | undefined {
  if (from === to || ASIDE.includes(from)) return undefined;
  if (ASIDE.includes(to)) return "only tests, benches and tools import tests, benches and tools";
  if (to === GROUND) return undefined;
  if (from === GROUND || LEAVES.includes(from)) return `${from} imports nothing of ours above it`;
  if (LEAVES.includes(to)) return undefined;
  const isApart = SERVER.includes(from)
    ? LIBRARY.includes(to)
    : LIBRARY.includes(from) && SERVER.includes(to);
  if (isApart) return `the library and the server do not know each other`;
  if (SPINE.indexOf(to) < SPINE.indexOf(from)) return undefined;
  return `${to} is above ${from}, and every arrow points down`;
}

/** Where a specifier leads, as a path from the root; undefined for what is not ours. */
export function resolveImport(
  from: string,
  specifier: string,
  aliases: Record<string, string> = {},
): string | undefined {
  const local = (path: string, base: string) =>
    decodeURIComponent(new URL(path, `file:///${base}`).pathname).slice(1);
  if (/^\.{1,2}\//.test(specifier)) return local(specifier, from);
  // The longest alias wins, as in an import map.
  const alias = Object.keys(aliases)
    .filter((key) => key.endsWith("/") ? specifier.startsWith(key) : specifier === key)
    .sort((a, b) => b.length - a.length)[0];
  const target = alias === undefined ? undefined : aliases[alias]!;
  if (target === undefined || !/^\.{1,2}\//.test(target)) return undefined;
  return local(target + specifier.slice(alias!.length), "");
}

/** Checks a tree of sources; `aliases` are an import map's, `exists` tells of paths that are not in `files` (data, shaders). */
export function checkImports(
  files: ReadonlyMap<string, string>,
  aliases: Record<string, string> = {},
  exists: (path: string) => boolean = () => true,
): ImportProblem[] {
  const problems: ImportProblem[] = [];
  const graph = new Map<string, { to: string; line: number }[]>();
  /** The first arrow from each room to each other. */
  const walls = new Map<string, { file: string; line: number; to: string }>();

  for (const [file, source] of files) {
    const layer = layerOf(file);
    if (layer === undefined) {
      const message = `Cannot place ${file}: it is in none of ${[...SPINE, ...LEAVES, ...ASIDE]}`;
      problems.push({ file, line: 1, rule: "place", message });
      continue;
    }
    const arrows: { to: string; line: number }[] = [];
    graph.set(file, arrows);
    for (const { specifier, kind, line } of scanImports(source)) {
      const to = resolveImport(file, specifier, aliases);
      if (to === undefined) continue;
      // A folder named by URL is data; it has no layer of its own to check beyond its place.
      if (kind !== "url" && !files.has(to) && !exists(to)) {
        const message = `Cannot follow "${specifier}": there is no ${to}`;
        problems.push({ file, line, rule: "missing", message });
      }
      const why = forbidden(layer, layerOf(to) ?? layer);
      if (why) {
        problems.push({ file, line, rule: "direction", message: `Cannot import ${to}: ${why}` });
      }
      if (kind === "value" && files.has(to)) arrows.push({ to, line });
      const [from, other] = [roomOf(file, layer), roomOf(to, layerOf(to))];
      if (!from || !other || from === other || kind === "url") continue;
      const back = walls.get(`${other} ${from}`);
      const isKnown = walls.has(`${from} ${other}`);
      if (!isKnown) walls.set(`${from} ${other}`, { file, line, to });
      if (back && !isKnown) {
        const message =
          `Cannot import ${to}: ${back.file}:${back.line} imports ${back.to}, and folders ` +
          "of one room import each other in one direction";
        problems.push({ file, line, rule: "pair", message });
      }
    }
    problems.push(...shaderProblems(file, layer, source));
  }

  for (const circle of circles(graph)) {
    const [file, second] = circle as [string, string];
    const line = graph.get(file)!.find(({ to }) => to === second)!.line;
    const message = `Cannot order these files, they import in a circle: ${circle.join(" → ")}`;
    problems.push({ file, line, rule: "circle", message });
  }
  return problems;
}

function shaderProblems(file: string, layer: string, source: string): ImportProblem[] {
  if (layer === "runtime/" || ASIDE.some((folder) => file.startsWith(folder))) return [];
  if (file.startsWith("runtime/")) return [];
  return stripSource(source, "keep").split("\n").flatMap((text, index) => {
    const found = SHADER.exec(text)?.[0];
    if (found === undefined) return [];
    const message = `Cannot keep "${found}" here: shaders are named in runtime/ only`;
    return [{ file, line: index + 1, rule: "shader" as const, message }];
  });
}

/** One circle, as the files on it with the first repeated, for every knot of the graph. */
function circles(graph: ReadonlyMap<string, { to: string }[]>): string[][] {
  const found: string[][] = [];
  const state = new Map<string, "open" | "done">();
  const path: string[] = [];
  const visit = (file: string) => {
    state.set(file, "open");
    path.push(file);
    for (const { to } of graph.get(file) ?? []) {
      if (state.get(to) === "open") found.push([...path.slice(path.indexOf(to)), to]);
      else if (!state.has(to)) visit(to);
    }
    path.pop();
    state.set(file, "done");
  };
  for (const file of graph.keys()) if (!state.has(file)) visit(file);
  return found;
}
