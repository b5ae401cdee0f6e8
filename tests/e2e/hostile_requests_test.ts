/**
 * Requests that were made to stop or to silence a server, against one that runs: it answers all the
 * time, keeps to its memory, and refuses them in a clear answer.
 */

import assert from "node:assert/strict";
import { type ServerProcess, startProcess } from "./server_process.ts";
import { ServerWatch } from "./server_watch.ts";

const IMAGES = "/v1/images/generations";
const EDITS = "/v1/images/edits";
const VIDEOS = "/v1/videos";

const FORM = "multipart/form-data; boundary=b";
const FIELDS = "application/x-www-form-urlencoded";
const JSON_TYPE = "application/json";

const field = (name: string, value: string) =>
  `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const form = (...parts: string[]) => `${field("prompt", "a")}${parts.join("")}--b--\r\n`;
const video = (url: string) =>
  JSON.stringify({ prompt: "a", size: "64x64", num_frames: 5, input_reference: url });

/** Bodies, how many of them at once, and how each may be answered. */
const BODIES: [
  what: string,
  path: string,
  type: string,
  body: () => string,
  count: number,
  statuses: number[],
][] = [
  ["a text of 30 MB", IMAGES, JSON_TYPE, () => `{"prompt":"${"a".repeat(30e6)}"}`, 1, [400]],
  ["four of them", IMAGES, JSON_TYPE, () => `{"prompt":"${"a".repeat(30e6)}"}`, 4, [400, 503]],
  ["15 MB of é", IMAGES, JSON_TYPE, () => `{"prompt":"${"é".repeat(15e6)}"}`, 2, [400, 503]],
  ["a number of 30 MB", IMAGES, JSON_TYPE, () => `{"seed":${"9".repeat(30e6)}}`, 1, [400]],
  ["30 MB of spaces", IMAGES, JSON_TYPE, () => " ".repeat(30e6), 1, [400]],
  ["30 MB of quotes", IMAGES, JSON_TYPE, () => '"'.repeat(30e6), 1, [400]],
  ["30 MB of brackets", IMAGES, JSON_TYPE, () => "[".repeat(30e6), 1, [400]],
  [
    "lists in a text",
    IMAGES,
    JSON_TYPE,
    () => `{"prompt":"a","extra_body":"{\\"a\\":[${"[],".repeat(9e6)}1]}"}`,
    1,
    [400],
  ],
  [
    "an image of 20 MB in base64",
    VIDEOS,
    JSON_TYPE,
    () => video(`data:image/png;base64,${"A".repeat(27e6)}`),
    2,
    [400],
  ],
  ["60 MB of boundaries", EDITS, FORM, () => "--b\r\n".repeat(12e6), 1, [400]],
  [
    "60 MB that are nearly boundaries",
    EDITS,
    FORM,
    () => form(field("image", "\r\n--".repeat(15e6))),
    1,
    [413],
  ],
  ["four fields of 26 MB", EDITS, FORM, () => form(field("x", "é".repeat(13e6))), 4, [422, 503]],
  [
    "190 fields of lists",
    VIDEOS,
    FORM,
    () => form(field("loras", `[${"{},".repeat(40_000)}{}]`).repeat(190)),
    2,
    [400],
  ],
  ["a million pluses", VIDEOS, FIELDS, () => `prompt=${"+".repeat(1e6)}`, 4, [400]],
];

Deno.test({
  name: "denoise serve answers and keeps its memory under hostile requests (slow)",
  // Elsewhere the memory of other processes is not in a file.
  ignore: !Deno.env.has("DENOISE_SLOW") || Deno.build.os !== "linux",
  fn: async (t) => {
    const folder = await Deno.makeTempDir();
    try {
      await using server = await startProcess(folder);
      using watch = new ServerWatch(server);
      const step = (name: string, use: () => Promise<void>) =>
        t.step(name, async () => {
          await use();
          await watch.check();
        });
      for (const [what, path, type, body, count, statuses] of BODIES) {
        const bytes = new TextEncoder().encode(body());
        await watch.reset();
        await step(what, async () => {
          const sent = Array.from({ length: count }, () => post(server.url + path, type, bytes));
          for (const { status, text } of await Promise.all(sent)) {
            assert.ok(statuses.includes(status), `${status}: ${text.slice(0, 300)}`);
          }
        });
      }
      await step("a body in 200,000 pieces of a byte", async () => {
        const pieces = "1\r\n \r\n".repeat(200_000);
        const answer = await exchange(
          server,
          `POST ${IMAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${JSON_TYPE}\r\n` +
            `transfer-encoding: chunked\r\n\r\n${pieces}0\r\n\r\n`,
        );
        assert.match(answer, /^HTTP\/1\.1 400 /);
      });
      await step("5000 requests ahead of their answers", async () => {
        await exchange(server, "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(5000));
      });
      await step("300 clients that leave in the middle of their bodies", async () => {
        for (let client = 0; client < 300; client++) {
          using connection = await connect(server);
          await connection.write(new TextEncoder().encode(
            `POST ${EDITS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${FORM}\r\n` +
              `content-length: 1000\r\n\r\n--b\r\n`,
          ));
        }
      });
      const response = await post(
        server.url + IMAGES,
        JSON_TYPE,
        new TextEncoder().encode('{"prompt":"a","size":"64x64","num_inference_steps":1}'),
      );
      assert.equal(response.status, 200, "it goes on");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

async function post(url: string, type: string, body: Uint8Array<ArrayBuffer>) {
  const response = await fetch(url, { method: "POST", headers: { "content-type": type }, body });
  return { status: response.status, text: await response.text() };
}

async function connect({ url }: ServerProcess): Promise<Deno.TcpConn> {
  const { hostname, port } = new URL(url);
  return await Deno.connect({ hostname, port: Number(port) });
}

/** What a server answers to bytes, until it closes the connection or has nothing more to say. */
async function exchange(server: ServerProcess, text: string): Promise<string> {
  using connection = await connect(server);
  const writing = (async () => {
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
  })().catch(() => {});
  const buffer = new Uint8Array(65536);
  const length = await connection.read(buffer).catch(() => null);
  await writing;
  return new TextDecoder().decode(buffer.subarray(0, length ?? 0));
}
