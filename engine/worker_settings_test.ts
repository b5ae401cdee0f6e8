import assert from "node:assert/strict";
import { join } from "node:path";
import { cacheFolder } from "./worker_settings.ts";

const folder = (variables: Record<string, string>) => cacheFolder((name) => variables[name]);

Deno.test("cacheFolder() takes the first variable that says where, and no empty one", () => {
  const all = { DENOISE_CACHE: "own", XDG_CACHE_HOME: "xdg", HOME: "home", USERPROFILE: "profile" };
  assert.equal(folder(all), "own");
  assert.equal(folder({ ...all, DENOISE_CACHE: "" }), join("xdg", "denoise"));
  assert.equal(folder({ HOME: "home", USERPROFILE: "p" }), join("home", ".cache", "denoise"));
  assert.equal(folder({ USERPROFILE: "profile" }), join("profile", ".cache", "denoise"));
});

Deno.test("cacheFolder() is none when it is off or there is no home", () => {
  assert.equal(folder({ DENOISE_CACHE: "off", HOME: "home" }), undefined);
  assert.equal(folder({}), undefined);
});
