import { strict as assert } from "node:assert";
import { resolve } from "node:path";
import { openCommand } from "./open_file.ts";

Deno.test("openCommand() names the desktop's program, and a file by its whole path", () => {
  const path = resolve("-x.png");
  assert.deepEqual(openCommand("-x.png", "darwin"), ["open", { args: [path] }]);
  assert.deepEqual(openCommand("-x.png", "linux"), ["xdg-open", { args: [path] }]);
  const page = "http://127.0.0.1:30000/";
  assert.deepEqual(openCommand(page, "darwin"), ["open", { args: [page] }]);
});

Deno.test("openCommand() leaves cmd no sign of its own", () => {
  const [program, { args, windowsRawArguments }] = openCommand("http://a/?b=1&c=2", "windows");
  assert.deepEqual([program, windowsRawArguments], ["cmd", true]);
  assert.deepEqual(args, ["/d", "/s", "/c", '"start "" "http://a/?b=1&c=2""']);
});

Deno.test({
  name: "cmd runs what openCommand() quotes, with & in a name",
  ignore: Deno.build.os !== "windows",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    const [script, seen] = [`${folder}\\a & b.cmd`, `${folder}\\seen`];
    await Deno.writeTextFile(script, `@echo off\r\necho seen>"${seen}"\r\nexit\r\n`);
    const [program, options] = openCommand(script);
    await new Deno.Command(program, { ...options, stdin: "null" }).output();
    let text = "";
    for (let left = 100; left > 0 && text === ""; left--) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      text = await Deno.readTextFile(seen).catch(() => "");
    }
    assert.equal(text.trim(), "seen");
    await Deno.remove(folder, { recursive: true }).catch(() => {});
  },
});
