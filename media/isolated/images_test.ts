import assert from "node:assert/strict";
import { EMULATOR } from "../../tests/support/emulated.ts";
import { interlacedPng, plainWebp, scannedJpeg } from "../../tests/support/hostile_images.ts";
import { noise, slopes } from "../../tests/support/pixels.ts";
import { decodeImage, inspectImage } from "../decode.ts";
import { encodeImage } from "../encode.ts";
import { fit } from "../fit.ts";
import { ImageError } from "../image.ts";
import { decodeOwnImage, encodeOwnImage, fitForeignImage, inspectForeignImage } from "./images.ts";
import { ImageProcess, ProcessEndedError, TaskError } from "./image_process.ts";

/** Takes about a second to decode. */
const SLOW = scannedJpeg(2048, 2048, 100);
const SLOW_INFO = inspectImage(SLOW);

Deno.test("fitForeignImage() gives what decoding and fitting here give, from bytes and files", async () => {
  const file = (await encodeImage(noise(90, 70, 4), { format: "webp" })).bytes;
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeFile(path, file);
    for (
      const how of [
        { cover: { width: 32, height: 48 } },
        { scaled: { width: 45, height: 35 }, cut: { width: 40, height: 30 } },
      ]
    ) {
      const expected = fit(await decodeImage(file), how);
      for (const source of [file, { path }]) {
        const info = await inspectForeignImage(source);
        assert.deepEqual(info, { format: "webp", width: 90, height: 70 });
        const { bytes: png } = await fitForeignImage(source, info, how);
        assert.deepEqual(await decodeImage(png), expected);
      }
    }
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("inspectForeignImage() names what is wrong, and more than 2^25 pixels are", async () => {
  await assert.rejects(inspectForeignImage(new Uint8Array(9)), (error) => {
    assert.ok(error instanceof ImageError);
    assert.match(error.message, /^Cannot read image: the file is of no known format; send PNG/);
    return true;
  });
  await assert.rejects(
    inspectForeignImage(plainWebp(8192, 8192)),
    /it is 8192x8192, which is 67108864 pixels, and at most 33554432 are allowed/,
  );
  const path = "/no/such/file";
  await assert.rejects(inspectForeignImage({ path }), Deno.errors.NotFound);
  assert.equal((await inspectForeignImage(plainWebp(64, 64))).width, 64, "it goes on");
});

/** Starting a process stops the thread that does, and takes emulators seconds. */
const LONGEST_PAUSE_MS = EMULATOR === undefined ? 300 : 5000;

Deno.test("fitForeignImage() leaves this thread free, and ends at its signal", async () => {
  const how = { cover: { width: 8, height: 8 } };
  const controller = new AbortController();
  let longest = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }, 5);
  try {
    // Twice as many as go on at once: half of them wait in line.
    const fitting = Array.from(
      { length: 4 },
      () => fitForeignImage(SLOW, SLOW_INFO, how, { signal: controller.signal }),
    );
    setTimeout(() => controller.abort(new DOMException("gone", "AbortError")), 400);
    const start = performance.now();
    const ends = await Promise.allSettled(fitting);
    const took = performance.now() - start;
    for (const end of ends) {
      assert.equal(end.status === "rejected" && end.reason.name, "AbortError");
    }
    assert.ok(took < 600 + LONGEST_PAUSE_MS, `it took ${took} ms to end`);
    assert.ok(longest < LONGEST_PAUSE_MS, `nothing else went on for ${longest} ms`);
    assert.equal(await running(), 0, "processes are left");
  } finally {
    clearInterval(timer);
  }
});

Deno.test("fitForeignImage() gives up after its time, and says so", async () => {
  const how = { cover: { width: 8, height: 8 } };
  await assert.rejects(fitForeignImage(SLOW, SLOW_INFO, how, { timeoutMs: 150 }), (error) => {
    assert.ok(error instanceof ImageError);
    assert.equal(
      error.message,
      "Cannot read image: it took more than 0.15 s; send a smaller one",
    );
    return true;
  });
});

Deno.test("ImageProcess does task after task, fails with one, and is over when it is ended", async () => {
  const process = new ImageProcess();
  const limits = { timeoutMs: 10_000 };
  const png = (await encodeImage(slopes(40, 30), { format: "png" })).bytes;
  const { result } = await process.perform({ kind: "inspect" }, png, limits);
  assert.equal(result.width, 40);
  const broken = process.perform({ kind: "decode" }, png.slice(0, 60), limits);
  await assert.rejects(
    broken,
    (error) => error instanceof TaskError && error.name === "ImageError",
  );
  assert.ok(process.isUsable);
  const slow = process.perform({ kind: "decode" }, interlacedPng(4096, 4096, 6, 16), limits);
  setTimeout(() => process.end(), 100);
  await assert.rejects(slow, ProcessEndedError);
  assert.ok(!process.isUsable);
});

Deno.test("ImageProcess is replaced before its work exceeds its limit of time", async () => {
  const process = new ImageProcess(1);
  assert.ok(process.isUsable);
  const { bytes } = await encodeImage(slopes(4, 3), { format: "png" });
  await process.perform({ kind: "inspect" }, bytes, { timeoutMs: 10_000 });
  assert.ok(!process.isUsable);
  process.end();
});

Deno.test("encodeOwnImage() and decodeOwnImage() give what encoding and decoding here give", async () => {
  for (const image of [slopes(64, 48), noise(300, 301, 4)]) {
    const options = { format: "png", text: { parameters: "ein Bär" } } as const;
    const encoded = await encodeOwnImage(image, options);
    assert.deepEqual(encoded, await encodeImage(image, options));
    assert.deepEqual(await decodeOwnImage(encoded.bytes), await decodeImage(encoded.bytes));
  }
  await assert.rejects(encodeOwnImage(noise(300, 301, 4), { format: "jpeg" }), TypeError);
  await assert.rejects(
    encodeOwnImage(noise(300, 301), { format: "webp", quality: 101 }),
    (error) => error instanceof RangeError && /quality 101/.test(error.message),
  );
});

/** How many processes of ours are in the middle of something; 0 where nobody can tell. */
async function running(): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  await new Promise((resolve) => setTimeout(resolve, 50));
  const { stdout } = await new Deno.Command("sh", {
    args: ["-c", `cat /proc/[0-9]*/stat 2>/dev/null`],
  }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => {
    const [state, parent] = line.slice(line.lastIndexOf(")") + 2).split(" ");
    return line.includes("(deno)") && Number(parent) === Deno.pid && state === "R";
  }).length;
}
