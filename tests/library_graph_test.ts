/** What importing the library loads. */
import assert from "node:assert/strict";

/** Specifiers of every module that a module imports, directly or not. */
async function modulesOf(path: string): Promise<string[]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", path],
    cwd: new URL("../", import.meta.url),
  }).output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as {
    modules: { specifier: string }[];
  };
  return modules.map(({ specifier }) => specifier);
}

const SERVER = /\/server\/|npm:\/?(?:hono|@hono|busboy|aws4fetch|openai|commander)|node:sqlite/;

Deno.test("importing the library loads no server, no database and no store", async () => {
  assert.deepEqual((await modulesOf("mod.ts")).filter((module) => SERVER.test(module)), []);
  const served = await modulesOf("server/mod.ts");
  for (const name of ["/server/app.ts", "npm:/hono@", "node:sqlite", "npm:/aws4fetch@"]) {
    assert.ok(served.some((module) => module.includes(name)), `the pattern knows ${name}`);
  }
});

Deno.test("importing the server does not load the library", async () => {
  const served = await modulesOf("server/mod.ts");
  assert.deepEqual(served.filter((module) => /\/library\/|\/denoise\/mod\.ts$/.test(module)), []);
});
