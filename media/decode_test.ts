import { strict as assert } from "node:assert";
import { inflateSync } from "node:zlib";
import goldens from "../tests/goldens/media/images.json" with { type: "json" };
import { scannedJpeg } from "../tests/support/hostile_images.ts";
import { noise, worstSample } from "../tests/support/pixels.ts";
import { decodeImage, type ImageFormat, inspectImage, sniffImage } from "./decode.ts";
import { ImageError, type PixelImage } from "./image.ts";
import { encodePng } from "./png.ts";
import { wasmCodec } from "./wasm_codec.ts";

const CASES = goldens.cases.map((golden) => ({
  name: golden.name,
  file: Uint8Array.fromBase64(golden.file),
  pixels: {
    width: golden.width,
    height: golden.height,
    ...(golden.channels === 4 ? { channels: 4 } : {}),
    data: new Uint8Array(inflateSync(Uint8Array.fromBase64(golden.pixels))),
  } as PixelImage,
}));

function fileOf(name: string): Uint8Array {
  return CASES.find((golden) => golden.name === name)!.file;
}

const FORMATS: readonly ImageFormat[] = ["png", "jpeg", "webp", "gif", "bmp"];

for (const format of FORMATS) {
  Deno.test(`decodeImage() gives Pillow's pixels, ${format}`, async () => {
    const cases = CASES.filter(({ name }) => name.split("-")[0] === format);
    assert.ok(cases.length > 0);
    for (const { name, file, pixels } of cases) {
      const decoded = await decodeImage(file);
      const { difference, text } = worstSample(decoded, pixels);
      // Pillow converts CMYK with its own rounding.
      assert.ok(difference <= (name === "jpeg-cmyk" ? 1 : 0), `${name}: ${text}`);
    }
  });

  Deno.test(`decodeImage() refuses every truncated file, ${format}`, async () => {
    const cases = CASES.filter(({ name }) =>
      new RegExp(`^${format}(-2-8|-lossy|-444)?$`).test(name)
    );
    for (const { name, file } of cases) {
      // The last bytes of a GIF hold no pixels: they only say that nothing more comes.
      const lengths = format === "gif" ? file.length - 4 : file.length;
      for (let length = 0; length < lengths; length += 1 + (file.length >> 6)) {
        const cut = file.slice(0, length);
        await assert.rejects(decodeImage(cut), ImageError, `${name}, ${length} bytes`);
      }
    }
  });

  Deno.test(`decodeImage() takes damage without any other error, ${format}`, async () => {
    for (const { name, file } of CASES.filter((golden) => golden.name.startsWith(format))) {
      if (format === "png" && !/png-(2-8|3-4-trns|0-1-adam7)$/.test(name)) continue;
      for (let i = 0; i < 40; i++) {
        const damaged = file.slice();
        const at = (i * 2654435761) % damaged.length;
        damaged[at] = damaged[at]! ^ (1 << (i % 8));
        try {
          const { width, height } = await decodeImage(damaged);
          assert.ok(width > 0 && height > 0);
        } catch (error) {
          assert.ok(error instanceof ImageError, `${name}, byte ${at}: ${error}`);
        }
      }
    }
  });
}

Deno.test("decodeImage() refuses too many pixels from the header alone", async () => {
  // A whole PNG header of 60000 x 60000 and nothing to decode after it.
  const header = encodePng(noise(3, 3)).slice();
  const view = new DataView(header.buffer);
  view.setUint32(16, 60_000);
  view.setUint32(20, 60_000);
  const { crc32 } = await import("node:zlib");
  view.setUint32(29, crc32(header.subarray(12, 29)));
  await assert.rejects(
    decodeImage(header),
    /it is 60000x60000, which is 3600000000 pixels, and at most 67108864 are allowed/,
  );
  for (const name of ["png-2-8", "jpeg-420", "webp-lossy", "webp-lossless-alpha", "gif", "bmp"]) {
    const { width, height } = inspectImage(fileOf(name));
    const pixels = width * height;
    await assert.rejects(
      decodeImage(fileOf(name), { maxPixels: pixels - 1 }),
      new RegExp(`which is ${pixels} pixels, and at most ${pixels - 1} are allowed`),
      name,
    );
    await decodeImage(fileOf(name), { maxPixels: pixels });
  }
});

Deno.test("decodeImage() refuses a JPEG with a second frame", async () => {
  const file = fileOf("jpeg-444");
  const frame = file.findIndex((byte, i) => byte === 0xff && file[i + 1] === 0xc0);
  const length = 2 + ((file[frame + 2]! << 8) | file[frame + 3]!);
  const segment = file.slice(frame, frame + length);
  const doubled = Uint8Array.from([...file.slice(0, frame), ...segment, ...file.slice(frame)]);
  await assert.rejects(decodeImage(doubled), /more than one frame/);
});

Deno.test("decodeImage() reads a JPEG of 100 scans, and refuses one of more, undecoded", async () => {
  const { width, height } = await decodeImage(scannedJpeg(64, 64, 100));
  assert.deepEqual([width, height], [64, 64]);
  const start = performance.now();
  await assert.rejects(
    decodeImage(scannedJpeg(4096, 4096, 1000)),
    /^ImageError: Cannot read JPEG: it has more than 100 scans;/,
  );
  // A thousand scans of that size take a minute.
  assert.ok(performance.now() - start < 2000);
});

Deno.test("decodeImage() refuses an animated WebP with a frame off its canvas", async () => {
  const file = fileOf("webp-animated");
  const at = file.findIndex((_, i) => String.fromCharCode(...file.slice(i, i + 4)) === "ANMF");
  // Left, top, width and height of a frame, and width and height of its image.
  const changes: [number, RegExp][] = [
    [at + 8, /a frame of 16x16 at \(2, 0\) does not lie on its 16x16 canvas/],
    [at + 11, /a frame of 16x16 at \(0, 2\) does not lie on its 16x16 canvas/],
    [at + 14, /a frame of 17x16 at \(0, 0\) does not lie/],
    [at + 17, /a frame of 16x17 at \(0, 0\) does not lie/],
    [at + 8 + 16 + 8 + 1, /a frame of 16x16 holds an image of 17x16/],
  ];
  for (const [where, message] of changes) {
    const changed = file.slice();
    changed[where] = changed[where]! + 1;
    await assert.rejects(decodeImage(changed), message);
  }
});

Deno.test("inspectImage() gives the size as it is seen, without decoding", async () => {
  for (const { name, file, pixels } of CASES) {
    const { format, width, height } = inspectImage(file);
    assert.deepEqual(
      { format, width, height },
      { format: name.split("-")[0], width: pixels.width, height: pixels.height },
      name,
    );
    await assert.rejects(decodeImage(file, { maxPixels: width * height - 1 }), ImageError, name);
  }
});

Deno.test("decodeImage() works again after a damaged file", async () => {
  for (const name of ["jpeg-444", "webp-lossy"]) {
    const file = fileOf(name);
    const before = await decodeImage(file);
    const damaged = file.slice();
    damaged.fill(0x55, 30, file.length - 20);
    await assert.rejects(decodeImage(damaged), ImageError, name);
    assert.deepEqual(await decodeImage(file), before, name);
  }
});

Deno.test("sniffImage() goes by bytes and says what else a file looks like", () => {
  for (const { name, file } of CASES) assert.equal(sniffImage(file), name.split("-")[0]);
  const others: [string, RegExp][] = [
    ["", /the file is empty$/],
    ["\0\0\0\x1cftypavif", /looks like AVIF; send PNG, JPEG, WebP, GIF or BMP$/],
    ["\0\0\0\x18ftypheic", /looks like HEIC;/],
    ["\0\0\0\x20ftypisom", /looks like an MP4 or QuickTime video;/],
    ["II*\0\x08\0\0\0", /looks like TIFF;/],
    ["%PDF-1.7", /looks like PDF;/],
    ["<svg xmlns=", /looks like SVG or XML;/],
    ["\n<!DOCTYPE html>", /looks like an HTML page;/],
    ["PK\x03\x04", /looks like a compressed archive;/],
    ["hello", /is of no known format;/],
  ];
  for (const [text, message] of others) {
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    assert.throws(() => sniffImage(bytes), (error) => {
      assert.ok(error instanceof ImageError);
      assert.match(error.message, message);
      return true;
    });
  }
});

Deno.test("wasmCodec() drops an instance that threw and turns what it threw into an Error", async () => {
  let made = 0;
  // The smallest module: magic number and version.
  const wasm = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
  const factory = (options: {
    instantiateWasm: (imports: object, ready: (instance: WebAssembly.Instance) => void) => unknown;
  }) => {
    options.instantiateWasm({}, () => made++);
    return Promise.resolve({ id: made });
  };
  const codec = wasmCodec<{ id: number }>(factory, wasm);
  assert.equal(await codec.run(({ id }) => id), 1);
  assert.equal(await codec.run(({ id }) => id), 1);
  await assert.rejects(
    codec.run(() => {
      throw { status: 1 };
    }),
    (error) => error instanceof Error && (error.cause as { status: number }).status === 1,
  );
  assert.equal(await codec.run(({ id }) => id), 2);
});

Deno.test("decodeImage() gives the colours of transparent pixels as a BMP stores them", async () => {
  const file = new Uint8Array(126);
  const view = new DataView(file.buffer);
  file.set([0x42, 0x4d]);
  for (
    const [at, value] of [
      ...[[2, 126], [10, 122], [14, 108], [18, 1], [22, 1], [30, 3], [34, 4]] as const,
      ...[[54, 0xff0000], [58, 0xff00], [62, 0xff], [66, 0xff000000], [70, 0x73524742]] as const,
    ]
  ) view.setUint32(at, value, true);
  view.setUint16(26, 1, true);
  view.setUint16(28, 32, true);
  for (const [r, g, b, a] of [[129, 129, 90, 128], [200, 10, 77, 3]] as const) {
    file.set([b, g, r, a], 122);
    assert.deepEqual([...(await decodeImage(file)).data], [r, g, b, a]);
  }
});
