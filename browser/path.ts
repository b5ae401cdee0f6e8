/** Paths with slashes, as `node:path` has them. */

export function join(...parts: string[]): string {
  return normalize(parts.filter((part) => part !== "").join("/"));
}

export function dirname(path: string): string {
  const at = path.replace(/\/+$/, "").lastIndexOf("/");
  return at === -1 ? "." : at === 0 ? "/" : path.slice(0, at);
}

export function basename(path: string, end = ""): string {
  const name = path.replace(/\/+$/, "").split("/").at(-1)!;
  return end !== "" && name !== end && name.endsWith(end) ? name.slice(0, -end.length) : name;
}

export function extname(path: string): string {
  return /[^/](\.[^./]*)$/.exec(path)?.[1] ?? "";
}

export function resolve(...parts: string[]): string {
  const first = Math.max(0, parts.findLastIndex((part) => part.startsWith("/")));
  return normalize(["", ...parts.slice(first)].join("/")).replace(/(.)\/$/, "$1");
}

function normalize(path: string): string {
  const isAbsolute = path.startsWith("/");
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === ".." && parts.length > 0 && parts.at(-1) !== "..") parts.pop();
    else if (part !== ".." || !isAbsolute) parts.push(part);
  }
  const end = path.endsWith("/") && parts.length > 0 ? "/" : "";
  return (isAbsolute ? "/" : "") + parts.join("/") + end || ".";
}
