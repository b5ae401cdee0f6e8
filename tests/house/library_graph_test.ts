/** What importing the library loads. */
import assert from "node:assert/strict";
import manifest from "../../deno.json" with { type: "json" };

/** What `deno info` tells of a module. */
interface ModuleInfo {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly code?: { readonly specifier: string };
    readonly isDynamic?: boolean;
  }[];
}

async function graphOf(
  path: string,
): Promise<{ roots: readonly string[]; modules: readonly ModuleInfo[] }> {
  const root = new URL("../../", import.meta.url);
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", path],
    cwd: root,
  }).output();
  // Whatever the folders above are called.
  return JSON.parse(new TextDecoder().decode(stdout).replaceAll(root.href, "/"));
}

/** Specifiers of every module that a module imports, directly or not. */
async function modulesOf(path: string): Promise<string[]> {
  return (await graphOf(path)).modules.map(({ specifier }) => specifier);
}

/** Those among them that are loaded with it, not only when something asks for them. */
async function loadedWith(path: string): Promise<string[]> {
  const { roots, modules } = await graphOf(path);
  const known = new Map(modules.map((module) => [module.specifier, module]));
  const loaded = new Set(roots);
  for (const specifier of loaded) {
    for (const { code, isDynamic } of known.get(specifier)?.dependencies ?? []) {
      if (code && !isDynamic) loaded.add(code.specifier);
    }
  }
  return [...loaded];
}

const SERVER = /\/server\/|npm:\/?(?:hono|@hono|busboy|aws4fetch|openai|commander)|node:sqlite/;

Deno.test("importing the library loads no server, no database and no store", async () => {
  assert.deepEqual((await modulesOf("mod.ts")).filter((module) => SERVER.test(module)), []);
  const served = await modulesOf("server/mod.ts");
  for (const name of ["/server/app.ts", "npm:/hono@", "node:sqlite", "npm:/aws4fetch@"]) {
    assert.ok(served.some((module) => module.includes(name)), `the pattern knows ${name}`);
  }
});

/** Packages that only tests, benches and tools use. */
const OF_TESTS = /npm:\/?(?:openai|playwright-core|axe-core|fast-check|yaml|@smithy)/;

Deno.test("the program fetches no package that only tests use", async () => {
  // Without this, Deno fetches every package that deno.json names, those for tests too.
  assert.ok(manifest.unstable.includes("npm-lazy-caching"));
  for (const path of ["cli.ts", "mod.ts", "engine/worker.ts"]) {
    assert.deepEqual((await modulesOf(path)).filter((module) => OF_TESTS.test(module)), [], path);
  }
  const clients = await modulesOf("tests/conformance/openai_client_test.ts");
  assert.ok(clients.some((module) => OF_TESTS.test(module)), "the pattern knows one");
});

Deno.test("importing the server does not load the library", async () => {
  const served = await modulesOf("server/mod.ts");
  assert.deepEqual(served.filter((module) => /^\/library\/|^\/mod\.ts$/.test(module)), []);
});

const FLEET = /\/fleet\/(?!mod\.ts)|npm:\/?(?:postgres|@opentelemetry)/;

Deno.test("a server without a database for a fleet loads nothing of fleets", async () => {
  for (const path of ["server/mod.ts", "commands/serve.ts"]) {
    assert.deepEqual((await loadedWith(path)).filter((module) => FLEET.test(module)), [], path);
  }
  const served = await modulesOf("server/mod.ts");
  assert.deepEqual(
    served.filter((module) => module.includes("/fleet/")),
    [],
    "the server knows it",
  );
  const all = await modulesOf("commands/serve.ts");
  for (const name of ["/fleet/start.ts", "npm:/postgres@", "npm:/@opentelemetry/api@"]) {
    assert.ok(all.some((module) => module.includes(name)), `the pattern knows ${name}`);
  }
  assert.ok(
    (await loadedWith("server/mod.ts")).some((module) => module.includes("/server/app.ts")),
  );
});
