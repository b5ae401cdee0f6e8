import assert from "node:assert/strict";
import { join } from "node:path";
import { NoAdapterError } from "../../errors.ts";
import { DAWN_VERSION, findDawn, type Surroundings } from "./dawn_package.ts";

/** A machine with these files and variables. */
function machine(
  files: readonly string[],
  variables: Readonly<Record<string, string>>,
  os = "linux",
  arch = "x86_64",
): Surroundings {
  return {
    env: (name) => variables[name],
    os,
    arch,
    list: (folder) =>
      files.filter((file) => file.startsWith(join(folder, "/"))).map((file) =>
        file.slice(folder.length + 1).split(/[\\/]/)[0]!
      ),
  };
}

/** The path of the addon in a package. */
const addon = (folder: string, platform: string) => join(folder, "dist", platform, "dawn.node");

Deno.test("findDawn() looks into Deno's cache, for any registry, where each system keeps it", () => {
  const cases = [
    ["linux", "x86_64", { HOME: "/home/me" }, "/home/me/.cache/deno", "linux-x64"],
    ["linux", "aarch64", { XDG_CACHE_HOME: "/cache" }, "/cache/deno", "linux-arm64"],
    [
      "darwin",
      "aarch64",
      { HOME: "/Users/me" },
      "/Users/me/Library/Caches/deno",
      "darwin-universal",
    ],
    ["windows", "x86_64", { LOCALAPPDATA: "/local" }, "/local/deno", "win32-x64"],
    ["linux", "x86_64", { HOME: "/home/me", DENO_DIR: "/own" }, "/own", "linux-x64"],
  ] as const;
  for (const [os, arch, variables, cache, platform] of cases) {
    const packages = join(cache, "npm", "registry.example", "webgpu", DAWN_VERSION);
    const path = addon(packages, platform);
    const here = machine([join(cache, "npm", "empty.example", "x"), path], variables, os, arch);
    assert.equal(findDawn(here), path);
  }
});

Deno.test("findDawn() prefers the folder that DENOISE_DAWN names", () => {
  const path = addon("/own", "linux-x64");
  assert.equal(findDawn(machine([path], { DENOISE_DAWN: "/own", HOME: "/home/me" })), path);
});

Deno.test("findDawn() says in one sentence how to get what is not there", () => {
  assert.throws(() => findDawn(machine([], { HOME: "/home/me" })), (error: Error) => {
    assert.ok(error instanceof NoAdapterError);
    assert.match(
      error.message,
      /^Cannot use Dawn: it is not on this machine; fetch it with "deno cache /,
    );
    return true;
  });
  const other = machine([addon("/own", "win32-x64")], { DENOISE_DAWN: "/own" });
  assert.throws(() => findDawn(other), /DENOISE_DAWN is \/own, which holds no dist\/linux-x64/);
});
