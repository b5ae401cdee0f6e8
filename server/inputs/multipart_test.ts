import type { WriteStream } from "node:fs";
import { Writable } from "node:stream";
import { join } from "node:path";
import assert from "node:assert/strict";
import { ApiError } from "../contract/errors.ts";
import { InputFolder } from "./input_folder.ts";
import { isForm, readForm } from "./multipart.ts";

const LIMITS = { maxFileBytes: 1000, maxFiles: 2, maxFieldBytes: 50, maxBytes: 10_000 };

async function withFolder(use: (folder: InputFolder) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  try {
    await use(new InputFolder(root));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

function formRequest(fill: (form: FormData) => void): Request {
  const form = new FormData();
  fill(form);
  return new Request("http://host/", { method: "POST", body: form });
}

function status(expected: number) {
  return (error: unknown) => error instanceof ApiError && error.status === expected;
}

Deno.test("readForm() gives texts, lists and files on disk", () =>
  withFolder(async (folder) => {
    const request = formRequest((form) => {
      form.set("prompt", "a cat — Katze");
      form.append("url[]", "one");
      form.append("url[]", "two");
      form.set("image", new File(["12345"], "../../cat.png", { type: "image/png" }));
    });
    assert.ok(isForm(request));
    const { fields, files } = await readForm(request, folder, LIMITS);
    assert.deepEqual(fields, { prompt: "a cat — Katze", "url[]": ["one", "two"] });
    const [file] = files;
    assert.deepEqual(file, {
      field: "image",
      name: "cat.png",
      contentType: "image/png",
      size: 5,
      path: join(folder.path, "0_cat.png"),
    });
    assert.equal(await Deno.readTextFile(file.path), "12345");
    await folder.remove();
    await assert.rejects(Deno.stat(folder.path), Deno.errors.NotFound);
  }));

Deno.test("readForm() reads forms without files", () =>
  withFolder(async (folder) => {
    const request = new Request("http://host/", {
      method: "POST",
      body: new URLSearchParams({ prompt: "a b", n: "2" }),
    });
    assert.ok(isForm(request));
    const { fields } = await readForm(request, folder, LIMITS);
    assert.deepEqual(fields, { prompt: "a b", n: "2" });
  }));

Deno.test("readForm() refuses what is too large with 413", () =>
  withFolder(async (folder) => {
    const forms: ((form: FormData) => void)[] = [
      (form) => form.set("image", new Blob([new Uint8Array(1001)])),
      (form) => form.set("prompt", "x".repeat(51)),
      (form) => ["a", "b"].forEach((name) => form.set(name, "x".repeat(30))),
      (form) => ["a", "b", "c"].forEach((name) => form.set(name, new Blob(["1"]))),
      (form) => Array.from({ length: 201 }, (_, i) => form.set(`f${i}`, "1")),
    ];
    for (const fill of forms) {
      await assert.rejects(readForm(formRequest(fill), folder, LIMITS), status(413));
    }
  }));

Deno.test("readForm() refuses a form that is broken or cut off with 400", () =>
  withFolder(async (folder) => {
    const whole = await formRequest((form) => form.set("image", new Blob(["12345"]))).bytes();
    const type = `multipart/form-data; boundary=${
      new TextDecoder().decode(whole).split("\r\n")[0]!.slice(2)
    }`;
    const bodies: [string, BodyInit][] = [
      [type, whole.slice(0, -20)],
      [type, whole.slice(0, 60)],
      [type, "no form at all"],
      [type, ""],
      ["multipart/form-data", whole],
    ];
    for (const [contentType, body] of bodies) {
      const request = new Request("http://host/", {
        method: "POST",
        body,
        headers: { "content-type": contentType },
      });
      await assert.rejects(readForm(request, folder, LIMITS), status(400));
    }
    const cut = new Request("http://host/", {
      method: "POST",
      body: whole.slice(0, -20),
      headers: { "content-type": type },
    });
    await assert.rejects(readForm(cut, folder, LIMITS), /it ends without its closing boundary; /);
  }));

/** A form with a prompt, whose part says of itself what it likes. */
function promptRequest(type: string, prompt: Uint8Array): Request {
  const head =
    `--b\r\nContent-Disposition: form-data; name="prompt"\r\nContent-Type: ${type}\r\n\r\n`;
  const body = new Blob([head, prompt.slice(), "\r\n--b--\r\n"]);
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  return new Request("http://host/", { method: "POST", body, headers });
}

Deno.test("readForm() reads a text in the charset that its part names", () =>
  withFolder(async (folder) => {
    const request = promptRequest("text/plain; charset=ISO-8859-1", Uint8Array.of(0xe9));
    const { fields } = await readForm(request, folder, LIMITS);
    assert.deepEqual(fields, { prompt: "é" });
  }));

Deno.test("readForm() refuses a charset that is not known, and says in which field", () =>
  withFolder(async (folder) => {
    const request = promptRequest("text/plain; charset=latin-1", Uint8Array.of(0xe9));
    await assert.rejects(readForm(request, folder, LIMITS), {
      status: 400,
      message: "Cannot read the form: field 'prompt' has an unknown charset; send UTF-8",
    });
  }));

/** A body that says nothing more after these bytes, and does not end. */
function openEnded(text: string, boundary = "b"): Request {
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(text)),
  });
  const headers = { "content-type": `multipart/form-data; boundary=${boundary}` };
  return new Request("http://host/", { method: "POST", headers, body });
}

Deno.test("readForm() is done with the closing boundary, though the body goes on", () =>
  withFolder(async (folder) => {
    const part = '--b\r\ncontent-disposition: form-data; name="prompt"\r\n\r\na cat\r\n';
    for (const after of ["", "\r\n", "\r\n--b\r\n", "\r\ngarbage\r\n--b--\r\n"]) {
      const { fields } = await readForm(openEnded(`${part}--b--${after}`), folder, LIMITS);
      assert.deepEqual(fields, { prompt: "a cat" });
    }
  }));

Deno.test("readForm() answers a form whose closing boundary comes first", () =>
  withFolder(async (folder) => {
    for (const text of ["\r\n--b--\r\n--b--\r\n", "--b--", "--b--\r\n--b\r\n"]) {
      const read = readForm(openEnded(text), folder, LIMITS);
      const { fields, files } = await read.catch(() => ({ fields: {}, files: [] }));
      assert.deepEqual([fields, files], [{}, []]);
    }
  }));

Deno.test("readForm() refuses a boundary that is empty before it reads the body", () =>
  withFolder(async (folder) => {
    for (const boundary of ["", '""', '"']) {
      await assert.rejects(readForm(openEnded("--\r\n", boundary), folder, LIMITS), status(400));
    }
  }));

Deno.test("readForm() refuses a form that is longer than all of its limits, at once", () =>
  withFolder(async (folder) => {
    const text = `--b\r\nx: y\r\n\r\n${"a".repeat(LIMITS.maxBytes)}`;
    await assert.rejects(readForm(openEnded(text), folder, LIMITS), status(413));
  }));

Deno.test("readForm() takes files and texts of exactly the longest length", () =>
  withFolder(async (folder) => {
    const request = formRequest((form) => {
      form.set("image", new Blob([new Uint8Array(LIMITS.maxFileBytes)]));
      form.set("prompt", "x".repeat(LIMITS.maxFieldBytes));
    });
    const { fields, files } = await readForm(request, folder, LIMITS);
    assert.equal(fields["prompt"]!.length, LIMITS.maxFieldBytes);
    assert.equal(files[0]!.size, LIMITS.maxFileBytes);
  }));

Deno.test("readForm() reads names of files in any script", () =>
  withFolder(async (folder) => {
    const request = formRequest((form) => form.set("image", new File(["1"], "图片-Bär.png")));
    const { files } = await readForm(request, folder, LIMITS);
    assert.equal(files[0]!.name, "图片-Bär.png");
  }));

Deno.test("readForm() says when the disk is full, and reads the rest all the same", () =>
  withFolder(async (folder) => {
    folder.open = () => {
      const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
      const stream = new Writable({ write: (_chunk, _encoding, done) => done(full) });
      return Promise.resolve({ path: "/nowhere", stream: stream as WriteStream });
    };
    const limits = { ...LIMITS, maxFileBytes: 2 ** 22, maxBytes: 2 ** 22 };
    const request = formRequest((form) => {
      form.set("image", new Blob([new Uint8Array(2 ** 21)]));
      form.set("prompt", "after the file");
    });
    await assert.rejects(readForm(request, folder, limits), {
      failure: "storage_failed",
    });
  }));

Deno.test("readForm() is not misled by names of JavaScript's own", () =>
  withFolder(async (folder) => {
    const request = formRequest((form) => {
      form.set("__proto__", "x");
      form.set("constructor", "y");
    });
    const { fields } = await readForm(request, folder, LIMITS);
    assert.equal(Object.getPrototypeOf(fields), Object.prototype);
    assert.equal(fields["constructor"], "y");
  }));

Deno.test("readForm() tells that the sender paused, not that the form is broken", () =>
  withFolder(async (folder) => {
    const body = new ReadableStream({
      pull: (controller) => controller.error(new ApiError(408, "Cannot read the body: it stalled")),
    });
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    const request = new Request("http://host/", { method: "POST", headers, body });
    await assert.rejects(readForm(request, folder, LIMITS), status(408));
  }));
