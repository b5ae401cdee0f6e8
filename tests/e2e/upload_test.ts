/** Bodies that are far larger than what a server may take for them. */

import { strict as assert } from "node:assert";
import { startProcess } from "./server_process.ts";

const MIB = 2 ** 20;
/** Memory that a server may take on for an upload. */
const MAX_GROWTH = 100 * 10 ** 6;

const BOUNDARY = "the-boundary";
const FORM_HEAD = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="prompt"\r\n\r\na\r\n` +
  `--${BOUNDARY}\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n` +
  `content-type: image/png\r\n\r\n`;

const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`;
const FORM_TAIL = `\r\n--${BOUNDARY}--\r\n`;
/** Uploads of so many MiB: content type, first bytes, last bytes, status of the answer. */
const UPLOADS: [mib: number, type: string, head: string, tail: string, status: number][] = [
  // The first one only fills what the collector of garbage lets lie.
  [200, FORM_TYPE, FORM_HEAD, FORM_TAIL, 413],
  [200, FORM_TYPE, FORM_HEAD, FORM_TAIL, 413],
  [300, FORM_TYPE, FORM_HEAD, FORM_TAIL, 413],
  [200, "application/json", '{"prompt": "', '"}', 413],
];

Deno.test({
  name: "denoise serve takes less than 100 MB more for further uploads of 200 MB and more (slow)",
  // Elsewhere the memory of another process is not in a file.
  ignore: !Deno.env.has("DENOISE_SLOW") || Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      await using server = await startProcess(folder);
      for (const [index, [mib, type, head, tail, status]] of UPLOADS.entries()) {
        const before = residentBytes(server.pid);
        let most = before;
        const timer = setInterval(() => most = Math.max(most, residentBytes(server.pid)), 10);
        const path = type === FORM_TYPE ? "edits" : "generations";
        const response = await fetch(`${server.url}/v1/images/${path}`, {
          method: "POST",
          headers: { "content-type": type },
          body: ReadableStream.from(bytes(mib, head, tail)),
        });
        clearInterval(timer);
        const text = await response.text();
        assert.equal(response.status, status, text);
        const growth = `${type}, ${mib} MiB: ${((most - before) / 10 ** 6).toFixed(0)} MB`;
        assert.ok(index === 0 || most - before < MAX_GROWTH, growth);
        assert.deepEqual([...Deno.readDirSync(`${folder}/outputs/inputs`)], [], "uploads stay");
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

function* bytes(mib: number, head: string, tail: string): Generator<Uint8Array> {
  yield new TextEncoder().encode(head);
  const chunk = new Uint8Array(MIB).fill(97);
  for (let count = 0; count < mib; count++) yield chunk;
  yield new TextEncoder().encode(tail);
}

function residentBytes(pid: number): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
