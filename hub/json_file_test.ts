import { describeFileError } from "../platform/mod.ts";
import { strict as assert } from "node:assert";
import { join } from "node:path";
import { readJsonFile, readJsonFileSync, readJsonObject } from "./json_file.ts";

/** Runs a test in a folder of its own. */
async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The error of a promise that must reject. */
async function errorOf(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof Error);
    return error;
  }
  throw new Error("Cannot continue test: nothing was thrown");
}

Deno.test("readJsonFile() reads every kind of value, with or without a byte order mark", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "a.json");
    for (const value of [{ a: [1, null, "水"] }, [], "text", 1.5, true, null]) {
      await Deno.writeTextFile(path, JSON.stringify(value));
      assert.deepEqual(await readJsonFile(path), value);
    }
    await Deno.writeTextFile(path, '\ufeff{"a": 1}');
    assert.deepEqual(await readJsonFile(path), { a: 1 });
  });
});

Deno.test("readJsonFile() reads null where Python wrote a number that JSON does not have", async () => {
  const path = await Deno.makeTempFile({ suffix: ".json" });
  const lines = ["{", '  "lowest": -Infinity,', '  "text": "\\"a\\": NaN",', '  "last": NaN', "}"];
  await Deno.writeTextFile(path, lines.join("\n"));
  assert.deepEqual(await readJsonFile(path), { lowest: null, text: '"a": NaN', last: null });
  await Deno.remove(path);
});

Deno.test("readJsonFile() names the file and what is wrong with its text", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "config.json");
    const cases: [string | Uint8Array, RegExp][] = [
      ["", /it is not valid JSON: it is empty$/],
      [" \n", /it is not valid JSON: it is empty$/],
      ['{"a": 1,}', /it is not valid JSON: .*position 8/],
      ['{"a": NaN}', /it is not valid JSON: /],
      ["nul", /it is text that begins with "nul"; give a file of JSON$/],
      [
        "<html>",
        /it is a web page and not the file itself, .*; log in, and fetch the file as JSON$/,
      ],
      [Uint8Array.of(0x89, 0x50, 0x4e, 0x47), /it is a PNG image; give a file of JSON$/],
      ["{\n\u001b[31m\n}", /it is not valid JSON: \P{Cc}+$/u],
      [Uint8Array.of(0xff, 0xfe, 0x7b, 0), /it is not UTF-8 text$/],
      ["version https://git-lfs.github.com/spec/v1\noid sha256:0", /run git lfs pull$/],
    ];
    for (const [content, message] of cases) {
      await Deno.writeFile(
        path,
        typeof content === "string" ? new TextEncoder().encode(content) : content,
      );
      const error = await errorOf(readJsonFile(path));
      assert.ok(error instanceof SyntaxError, error.message);
      assert.throws(() => readJsonFileSync(path), { message: error.message });
      assert.ok(error.message.startsWith(`Cannot read ${path}: `), error.message);
      assert.match(error.message, message);
    }
  });
});

Deno.test("readJsonFile() refuses a file over the limit and takes one at the limit", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "a.json");
    await Deno.writeTextFile(path, `"${"x".repeat(98)}"`);
    assert.equal(await readJsonFile(path, { maxBytes: 100 }), "x".repeat(98));
    await assert.rejects(
      readJsonFile(path, { maxBytes: 99 }),
      new RangeError(`Cannot read ${path}: it has 100 bytes, and at most 99 are allowed`),
    );
    // Sparse: 10 GB that take no room, and would take all memory.
    await Deno.truncate(path, 10e9);
    await assert.rejects(readJsonFile(path), /it has 10000000000 bytes, and at most 67108864/);
  });
});

Deno.test("readJsonFile() says what is there instead of a file", async () => {
  await inFolder(async (folder) => {
    const missing = await errorOf(readJsonFile(join(folder, "none.json")));
    assert.ok(missing instanceof Deno.errors.NotFound);
    assert.match(missing.message, /none\.json: it does not exist$/);
    assert.match((await errorOf(readJsonFile(folder))).message, /: it is a folder$/);
    await Deno.writeTextFile(join(folder, "file"), "{}");
    const below = await errorOf(readJsonFile(join(folder, "file", "config.json")));
    // Windows does not tell the two apart.
    assert.match(below.message, /: (?:a part of its path is not a folder|it does not exist)$/);
  });
});

Deno.test({
  name: "readJsonFile() stops at symbolic links in a circle and at pipes",
  // Making links needs a privilege on Windows, and it has no pipes in folders.
  ignore: Deno.build.os === "windows",
  fn: async () => {
    await inFolder(async (folder) => {
      await Deno.symlink(join(folder, "b.json"), join(folder, "a.json"));
      await Deno.symlink(join(folder, "a.json"), join(folder, "b.json"));
      const loop = await errorOf(readJsonFile(join(folder, "a.json")));
      assert.match(loop.message, /a\.json: its symbolic links lead in a circle$/);
      const pipe = join(folder, "pipe.json");
      const { success } = await new Deno.Command("mkfifo", { args: [pipe] }).output();
      assert.ok(success, "mkfifo made a pipe");
      assert.match((await errorOf(readJsonFile(pipe))).message, /: it is not a regular file$/);
    });
  },
});

Deno.test("readJsonObject() refuses whatever is no object, and keeps odd keys as data", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "a.json");
    for (const [text, kind] of [["[]", "an array"], ["null", "null"], ["3", "a number"]] as const) {
      await Deno.writeTextFile(path, text);
      await assert.rejects(
        readJsonObject(path),
        new TypeError(`Cannot read ${path}: it must hold a JSON object, and it holds ${kind}`),
      );
    }
    await Deno.writeTextFile(path, '{"__proto__": {"polluted": true}, "constructor": 1}');
    const json = await readJsonObject(path);
    assert.deepEqual(Object.keys(json), ["__proto__", "constructor"]);
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });
});

Deno.test("describeFileError() has words for anything that is thrown", () => {
  assert.equal(describeFileError(new Deno.errors.PermissionDenied()), "this user may not read it");
  assert.equal(describeFileError(new Error("disk on fire")), "disk on fire");
  assert.equal(describeFileError("odd"), "odd");
});
