import { strict as assert } from "node:assert";
import { meanDifference, noise, SIZES, slopes, worstSample } from "../tests/support/pixels.ts";
import { decodeImage, inspectImage } from "./decode.ts";
import { encodeImage, type OutputFormat, readImageText, resolveQuality } from "./encode.ts";
import { encodeJpeg } from "./jpeg.ts";
import { writeExif } from "./exif.ts";
import { encodeWebp } from "./webp.ts";

const FORMATS: readonly OutputFormat[] = ["png", "jpeg", "webp"];

Deno.test("encodeImage() then decodeImage() keeps odd sizes and colours", async () => {
  for (const [width, height] of SIZES) {
    const image = slopes(width, height);
    for (const format of FORMATS) {
      const { bytes } = await encodeImage(image, { format, quality: 95 });
      assert.deepEqual(inspectImage(bytes), { format, width, height });
      const decoded = await decodeImage(bytes);
      const { difference, text } = worstSample(decoded, image);
      const allowed = format === "png" ? 0 : 24;
      assert.ok(difference <= allowed, `${format} ${width}x${height}: ${text}`);
      assert.ok(meanDifference(decoded, image) < 4, `${format} ${width}x${height}`);
    }
  }
});

Deno.test("encodeImage() labels its files", async () => {
  const labels = await Promise.all(FORMATS.map(async (format) => {
    const { contentType, extension } = await encodeImage(noise(3, 3), { format });
    return `${contentType} .${extension}`;
  }));
  assert.deepEqual(labels, ["image/png .png", "image/jpeg .jpg", "image/webp .webp"]);
});

Deno.test("encodeImage() honours the quality", async () => {
  const image = noise(64, 64);
  for (const format of ["jpeg", "webp"] as const) {
    const steps = await Promise.all([5, 35, 75, 95].map(async (quality) => {
      const { bytes } = await encodeImage(image, { format, quality });
      return { size: bytes.length, loss: meanDifference(await decodeImage(bytes), image) };
    }));
    for (let i = 1; i < steps.length; i++) {
      assert.ok(steps[i]!.size > steps[i - 1]!.size, `${format}: ${JSON.stringify(steps)}`);
      assert.ok(steps[i]!.loss < steps[i - 1]!.loss, `${format}: ${JSON.stringify(steps)}`);
    }
    const { bytes } = await encodeImage(image, { format });
    assert.equal(bytes.length, steps[2]!.size, `${format} is 75 unless told otherwise`);
  }
});

Deno.test("encodeImage() writes the same PNG at any quality", async () => {
  const { bytes } = await encodeImage(slopes(64, 64), { format: "png" });
  for (const quality of [0, 50, 100]) {
    assert.deepEqual((await encodeImage(slopes(64, 64), { format: "png", quality })).bytes, bytes);
  }
});

Deno.test("encodeImage() writes the pixels of an RGBA image to PNG and WebP", async () => {
  const image = noise(33, 17, 4);
  const png = await decodeImage((await encodeImage(image, { format: "png" })).bytes);
  assert.deepEqual(png, image);
  const webp = await decodeImage((await encodeImage(image, { format: "webp" })).bytes);
  assert.equal(webp.channels, 4);
  assert.ok(webp.data.every((value, i) => i % 4 !== 3 || value === image.data[i]), "exact alpha");
});

Deno.test("encodeImage() refuses alpha in a JPEG and quality out of range", async () => {
  await assert.rejects(
    encodeImage(noise(2, 2, 4), { format: "jpeg" }),
    /the image has an alpha channel, which JPEG cannot hold/,
  );
  for (const format of FORMATS) {
    for (const quality of [-1, 101, NaN]) {
      await assert.rejects(encodeImage(noise(2, 2), { format, quality }), RangeError);
    }
  }
});

Deno.test("encodeJpeg() and encodeWebp() refuse sides that their formats cannot hold", async () => {
  const wide = (width: number) => ({ width, height: 1, data: new Uint8Array(width * 3) });
  await assert.rejects(encodeJpeg(wide(65_536), 75), /65536x1 is more than 65535 a side; use PNG$/);
  await assert.rejects(encodeWebp(wide(16_384), 75), /16384x1 is more than 16383 a side; use PNG$/);
  assert.equal(inspectImage(await encodeJpeg(wide(65_535), 75)).width, 65_535);
  assert.equal(inspectImage(await encodeWebp(wide(16_383), 75)).width, 16_383);
});

Deno.test("readImageText() gives back what encodeImage() was told, in every format", async () => {
  const text = { Software: "x 1", parameters: "a café — 好 🎨\n", denoise: '{"a":"ж"}' };
  for (const format of FORMATS) {
    for (const image of format === "jpeg" ? [noise(8, 8)] : [noise(8, 8), noise(7, 9, 4)]) {
      const { bytes } = await encodeImage(image, { format, text });
      assert.deepEqual(readImageText(bytes), text, format);
      const plain = await encodeImage(image, { format, text: {} });
      assert.deepEqual(readImageText(plain.bytes), {}, format);
      const pixels = await decodeImage(bytes);
      assert.deepEqual(pixels, await decodeImage(plain.bytes), `${format}: the same pixels`);
    }
  }
});

Deno.test("readImageText() reads what denoise 0.1 wrote into the comment, and ComfyUI's texts in EXIF", async () => {
  const text = { prompt: "a", seed: "42" };
  const read = async (exif: Uint8Array) => readImageText(await encodeJpeg(noise(8, 8), 75, exif));
  assert.deepEqual(await read(writeExif({ comment: JSON.stringify(text) })), text);
  const comment = '{"a": 1}';
  assert.deepEqual(await read(writeExif({ comment })), { parameters: comment });
  // Model is the tag beside Software: the same entry under another number.
  for (const [label, expected] of [["prompt:{}", { prompt: "{}" }], ["X100", {}]] as const) {
    const exif = writeExif({ software: label });
    exif.set([0x01, 0x10], 10);
    assert.deepEqual(await read(exif), expected);
  }
});

Deno.test("encodeImage() refuses a text that is too long for a JPEG", async () => {
  const text = { parameters: "x".repeat(33_000) };
  await assert.rejects(encodeImage(noise(2, 2), { format: "jpeg", text }), /shorten the text/);
});

Deno.test("encodeImage() works in a worker, for every format", async () => {
  const source = `
    import { encodeImage } from ${JSON.stringify(import.meta.resolve("./encode.ts"))};
    import { decodeImage } from ${JSON.stringify(import.meta.resolve("./decode.ts"))};
    self.onmessage = async ({ data }) => {
      const files = [];
      for (const format of ["png", "jpeg", "webp"]) {
        const { bytes } = await encodeImage(data, { format });
        await decodeImage(bytes);
        files.push(bytes);
      }
      self.postMessage(files);
    };`;
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  try {
    const image = slopes(40, 30);
    const files = await new Promise<Uint8Array[]>((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message));
      };
      worker.postMessage(image);
    });
    for (const [index, format] of FORMATS.entries()) {
      const { bytes } = await encodeImage(image, { format });
      assert.deepEqual(files[index], bytes, format);
    }
  } finally {
    worker.terminate();
    URL.revokeObjectURL(url);
  }
});

Deno.test("resolveQuality() knows the presets and falls back to the default of the medium", () => {
  const table: [string | null | undefined, number, number][] = [
    ["maximum", 100, 100],
    ["high", 90, 90],
    ["medium", 55, 55],
    ["low", 35, 35],
    ["default", 75, 50],
    ["unheard of", 75, 50],
    ["constructor", 75, 50],
    ["", 75, 50],
    [null, 75, 50],
    [undefined, 75, 50],
  ];
  for (const [preset, image, video] of table) {
    assert.equal(resolveQuality(preset, undefined, "image"), image, `${preset}`);
    assert.equal(resolveQuality(preset, null, "video"), video, `${preset}`);
  }
});

Deno.test("resolveQuality() lets a number win, zero included, and refuses one out of range", () => {
  assert.equal(resolveQuality("maximum", 0, "image"), 0);
  assert.equal(resolveQuality("low", 100, "video"), 100);
  for (const value of [-1, 101, NaN, Infinity]) {
    assert.throws(() => resolveQuality("high", value, "image"), /must be between 0 and 100$/);
  }
});
