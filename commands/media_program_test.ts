import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { encodePng } from "../media/png.ts";
import { frameHead, readFrame } from "../media/isolated/frames.ts";
import {
  announceProgramCommand,
  PROGRAM_COMMAND,
  programCommand,
} from "../media/isolated/program.ts";
import { plainWebp } from "../tests/support/hostile_images.ts";
import { slopes } from "../tests/support/pixels.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

/** Runs the command line as a compiled executable runs itself. */
async function run(args: string[], input: Uint8Array<ArrayBuffer>) {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--quiet", CLI, PROGRAM_COMMAND, ...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(input);
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  return { code, bytes: stdout, said: new TextDecoder().decode(stderr) };
}

Deno.test("denoise media-program images is the program that reads images", async () => {
  const png = encodePng(slopes(30, 20));
  // Its decoder is a WebAssembly module, which has to be there when nothing may be read any more.
  const webp = plainWebp(8, 5);
  const input = [
    ...[...frameHead({ kind: "inspect" }, png.length), ...png],
    ...[...frameHead({ kind: "decode" }, webp.length), ...webp],
  ];
  const { code, bytes, said } = await run(["images"], Uint8Array.from(input));
  assert.equal(code, 0, said);
  let at = 0;
  const read = (length: number) => Promise.resolve(bytes.slice(at, at += length));
  const inspected = await readFrame(read);
  assert.deepEqual(inspected?.message, { result: { format: "png", width: 30, height: 20 } });
  const decoded = await readFrame(read);
  assert.deepEqual(decoded?.message, { result: { width: 8, height: 5 } });
  assert.equal(decoded?.bytes.length, 8 * 5 * 3);
});

Deno.test("denoise media-program ffmpeg is FFmpeg, and another name is refused", async () => {
  const args = "-f rawvideo -pix_fmt gray -s 2x2 -i pipe:0 -f rawvideo -pix_fmt rgb24 pipe:1";
  const grey = await run(["ffmpeg", "1000000000", ...args.split(" ")], Uint8Array.of(9, 8, 7, 6));
  assert.equal(grey.code, 0, grey.said);
  assert.deepEqual([...grey.bytes], [9, 9, 9, 8, 8, 8, 7, 7, 7, 6, 6, 6]);
  const other = await run(["other"], new Uint8Array(0));
  assert.equal(other.code, 2);
  assert.match(other.said, /^denoise: Cannot run media-program other: there is no such program$/m);
});

Deno.test("programCommand() gives what runs here, with no more than it was allowed", () => {
  announceProgramCommand();
  const command = programCommand("ffmpeg", { read: ["/a,b", "/c"], write: ["/d"] });
  assert.ok(command.includes("--allow-read=/a,,b,/c"), command.join(" "));
  assert.ok(command.includes("--allow-write=/d"));
  assert.ok(!programCommand("images").some((arg) => arg.startsWith("--allow") || arg === "-A"));
});
