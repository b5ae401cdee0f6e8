/** The documents lead to files, headings and tests that are there, and each can be reached from the first page. */
import { strict as assert } from "node:assert";
import { dirname, join, normalize } from "node:path/posix";
import { flagOf } from "../../commands/flag_command.ts";
import * as flags from "../../commands/flags.ts";
import type { Flags } from "../../generation/flag.ts";
import { ROUTES } from "../../server/routes/table.ts";
import { documentedPages } from "../../tools/docs.ts";
import { exists, readTree } from "../../tools/root.ts";

const documents = readTree("", [".md"]);

/** Links of a document to other files, outside of code. */
function linksOf(text: string): { readonly path: string; readonly anchor: string | undefined }[] {
  const prose = text.replace(/^```[\s\S]*?^```$/gm, "").replace(/`[^`\n]*`/g, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = "", anchor] = target.split("#");
      return { path, anchor };
    });
}

/** The anchors that a Markdown viewer gives the headings of a document. */
function anchorsOf(text: string): string[] {
  const prose = text.replace(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
  );
}

function resolve(from: string, path: string): string {
  return path === "" ? from : normalize(join(dirname(from), path)).replace(/\/$/, "");
}

Deno.test("documents link to files and headings that are there", () => {
  const broken: string[] = [];
  for (const [file, text] of documents) {
    for (const { path, anchor } of linksOf(text)) {
      const target = resolve(file, path);
      const other = documents.get(target);
      const isThere = other === undefined
        ? exists(target)
        : anchor === undefined || anchorsOf(other).includes(anchor);
      if (!isThere) broken.push(`${file}: ${path}${anchor === undefined ? "" : `#${anchor}`}`);
    }
  }
  assert.deepEqual(broken, []);
});

Deno.test("READMEs name files that are there", () => {
  const files = [...readTree("", [".ts"]).keys()];
  const missing: string[] = [];
  for (const [file, text] of documents) {
    if (!file.endsWith("/README.md")) continue;
    const [, section = ""] = /^## Files\n([\s\S]*?)\n## /m.exec(`${text}\n## `) ?? [];
    for (const [, cell, name] of section.matchAll(/(^\| )?`([\w./]+\.ts)`/gm)) {
      const isThere = cell
        ? exists(resolve(file, name!))
        : files.some((path) => path === name || path.endsWith(`/${name}`));
      if (!isThere) missing.push(`${file}: ${name}`);
    }
  }
  assert.deepEqual(missing, []);
});

Deno.test("commands in documents have flags that there are", () => {
  const tables = Object.entries(flags).filter(([name]) => name.endsWith("_FLAGS"))
    .flatMap(([, table]) => Object.entries(table as Flags));
  // The launcher's `test` has one of its own.
  const known = new Set(["--changed", ...tables.map(([name, flag]) => flagOf(name, flag))]);
  const unknown: string[] = [];
  for (const [file, text] of documents) {
    const commands = text.replaceAll("\\\n", " ").matchAll(/^(?:\.\/)?denoise [a-z]+ .*$/gm);
    for (const [command] of commands) {
      const own = command.replaceAll(/"[^"]*"|'[^']*'/g, "").match(/(?<= )--[a-z][\w-]*/g) ?? [];
      for (const flag of own) if (!known.has(flag)) unknown.push(`${file}: ${flag}`);
    }
  }
  assert.deepEqual(unknown, []);
});

Deno.test("docs/http-api.md names every route", () => {
  const page = documents.get("docs/http-api.md")!;
  const names = ROUTES.map(({ path }) => path.split("/").findLast((part) => !/[{}]/.test(part))!);
  assert.ok(names.length > 20, `${names.length} routes`);
  assert.deepEqual(names.filter((name) => !page.includes(name)), []);
});

Deno.test("tables of fields, flags and models in docs/ are those that `deno task docs` writes", () => {
  for (const [path, text] of documentedPages()) {
    assert.equal(documents.get(path), text, `${path} is old: run deno task docs`);
  }
});

Deno.test("README.md leads to every page of docs/", () => {
  const seen = new Set<string>();
  const open = ["README.md"];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    const own = file;
    open.push(...linksOf(documents.get(file) ?? "").map(({ path }) => resolve(own, path)));
  }
  const pages = [...documents.keys()].filter((file) => file.startsWith("docs/"));
  assert.ok(pages.length > 0);
  assert.deepEqual(pages.filter((page) => !seen.has(page)), []);
});

const CONFORMANCE = "tests/conformance/README.md";

/** Fewest letters of a title beside what is filled in: titles of gaps alone would match any name. */
const OWN_LETTERS = 12;

/** Matches a text whose pieces are known, with anything between them. */
function pattern(pieces: string[]): RegExp {
  return new RegExp(
    `^${pieces.map((piece) => piece.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join(".*")}$`,
  );
}

Deno.test(`${CONFORMANCE} names tests that are there`, () => {
  const titles = [...readTree("", ["_test.ts"]).values()]
    .flatMap((text) => [...text.matchAll(/"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g)])
    .map(([, plain, template]) => (plain ?? template!).split(/\$\{(?:[^{}]|\{[^{}]*\})*\}/))
    .filter((pieces) => pieces.join("").length >= OWN_LETTERS)
    .map((pieces) => ({ text: pieces.join("…"), pattern: pattern(pieces) }));
  const named = documents.get(CONFORMANCE)!.split("\n")
    .filter((line) => line.startsWith("  - `"))
    .flatMap((line) => line.slice(4).split(/ \/ |; /))
    .flatMap((part) => /^`([^`]+)`/.exec(part)?.[1] ?? [])
    .map((title) => title.replace(/^G /, "POST … "));
  assert.ok(named.length > 100, `${named.length} are named`);
  const missing = named.filter((title) => {
    const gaps = pattern(title.split(/…|<\w+>/));
    return !titles.some((own) => own.pattern.test(title) || gaps.test(own.text));
  });
  assert.deepEqual(missing, []);
});
