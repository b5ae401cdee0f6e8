import { strict as assert } from "node:assert";
import { deflateSync, inflateSync } from "node:zlib";
import goldens from "../../tests/goldens/media/colors.json" with { type: "json" };
import { noise, worstSample } from "../../tests/support/pixels.ts";
import { decodeImage } from "../decode.ts";
import { ImageError, type PixelImage } from "../image.ts";
import { encodeJpeg } from "../jpeg.ts";
import { encodePng, pngChunk } from "../png.ts";

const CASES = goldens.cases.map(({ name, width, height, file, pixels }) => ({
  name,
  file: Uint8Array.fromBase64(file),
  pixels: { width, height, data: new Uint8Array(inflateSync(Uint8Array.fromBase64(pixels))) },
}));

for (const { name, file, pixels } of CASES) {
  Deno.test(`decodeImage() gives the sRGB of LittleCMS, ${name}`, async () => {
    const decoded = await decodeImage(file);
    const { difference, text } = worstSample(withoutAlpha(decoded), pixels);
    assert.ok(difference <= 1, text);
  });
}

function withoutAlpha(image: PixelImage): PixelImage {
  const { data } = image;
  return image.channels === 4
    ? { ...image, channels: 3, data: data.filter((_, i) => i % 4 < 3) }
    : image;
}

const IMAGE = noise(16, 16);

type Chunk = [type: string, data: number[] | Uint8Array];

/** A PNG file with chunks behind its header. */
function withChunksOf(image: PixelImage, ...chunks: Chunk[]): Uint8Array {
  const file = encodePng(image);
  const added = chunks.flatMap(([type, data]) => [...pngChunk(type, Uint8Array.from(data))]);
  return Uint8Array.from([...file.subarray(0, 33), ...added, ...file.subarray(33)]);
}

const withChunks = (...chunks: Chunk[]) => withChunksOf(IMAGE, ...chunks);

const words = (...values: number[]) =>
  values.flatMap((value) => [0, value >> 16, value >> 8, value]);
const LINEAR: [string, number[]] = ["gAMA", words(100_000)];
const profileOf = (name: string) => {
  const { file } = CASES.find((each) => each.name === name)!;
  const at = new TextDecoder("latin1").decode(file).indexOf("iCCP");
  const { length } = new Uint8Array(file.subarray(at - 4, at));
  assert.equal(length, 4);
  return file.slice(at + 4, at + 4 + new DataView(file.buffer, at - 4, 4).getUint32(0));
};

Deno.test("decodeImage() keeps the bits of a PNG that says sRGB in one of its ways", async () => {
  const cases: Uint8Array[] = [
    withChunks(["sRGB", [0]], LINEAR),
    withChunks(["gAMA", words(45_455)]),
    withChunks(["cICP", [1, 13, 0, 1]], LINEAR),
    withChunks(["iCCP", profileOf("png-srgb")], LINEAR),
    withChunks(["iCCP", profileOf("png-srgb-table")]),
    withChunks(["gAMA", words(0)]),
  ];
  for (const [index, file] of cases.entries()) {
    assert.deepEqual((await decodeImage(file)).data, IMAGE.data, `case ${index}`);
  }
});

Deno.test("decodeImage() reads gAMA, cHRM and cICP of a PNG, of which cICP counts first", async () => {
  const [sample] = (await decodeImage(withChunks(LINEAR))).data;
  const light = IMAGE.data[0]! / 255;
  assert.equal(sample, Math.round(255 * (1.055 * light ** (1 / 2.4) - 0.055)));
  const p3 = words(31_270, 32_900, 68_000, 32_000, 26_500, 69_000, 15_000, 6_000);
  const wide = await decodeImage(withChunks(["gAMA", words(45_455)], ["cHRM", p3]));
  const coded = await decodeImage(withChunks(["cICP", [12, 13, 0, 1]], LINEAR));
  assert.deepEqual(coded.data, wide.data);
  assert.notDeepEqual(wide.data, IMAGE.data);
});

Deno.test("decodeImage() refuses colours that it cannot convert, and says what to do", async () => {
  const profile = inflateSync(profileOf("png-p3").subarray(profileOf("png-p3").indexOf(0) + 2));
  const named = (change: (bytes: Uint8Array) => void): [string, Uint8Array] => {
    const changed = Uint8Array.from(profile);
    change(changed);
    return ["iCCP", Uint8Array.from([97, 0, 0, ...deflateSync(changed)])];
  };
  const text = (bytes: Uint8Array, at: number, value: string) =>
    bytes.set(new TextEncoder().encode(value), at);
  const tag = (name: string) => profile.indexOf(name, 128);
  const cases: [Uint8Array, RegExp][] = [
    [
      withChunks(["cICP", [9, 16, 0, 1]]),
      /primaries 9, transfer characteristics 16 .* save it as sRGB/,
    ],
    [withChunks(["cICP", [1, 1, 1, 0]]), /matrix 1 in narrow range/],
    [withChunks(named((bytes) => text(bytes, 16, "CMYK"))), /profile is of CMYK colours/],
    [
      withChunks(named((bytes) => text(bytes, tag("rTRC"), "A2B0"))),
      /has tables in place of curves/,
    ],
    [withChunks(named((bytes) => text(bytes, 36, "none"))), /colour profile is damaged/],
    [withChunks(["iCCP", [97, 0, 0, 1, 2, 3]]), /colour profile is damaged/],
  ];
  for (const [file, message] of cases) {
    await assert.rejects(decodeImage(file), (error) => {
      assert.ok(error instanceof ImageError);
      assert.match(error.message, message);
      assert.match(error.message, /^Cannot use image: .*; save it as sRGB$/);
      return true;
    });
  }
});

Deno.test("decodeImage() converts a photo of which EXIF alone says that it is Adobe RGB", async () => {
  // Index R03, by way of the directories of EXIF and of interoperability.
  const entry = (tag: number, type: number, count: number, value: number[]) => //
  [tag >> 8, tag & 255, 0, type, 0, 0, 0, count, ...value];
  const directory = (only: number[]) => [0, 1, ...only, 0, 0, 0, 0];
  const exif = Uint8Array.from([
    ...[0x4d, 0x4d, 0, 42, 0, 0, 0, 8],
    ...directory(entry(0x8769, 4, 1, [0, 0, 0, 26])),
    ...directory(entry(0xa005, 4, 1, [0, 0, 0, 44])),
    ...directory(entry(0x0001, 2, 4, [...new TextEncoder().encode("R03"), 0])),
  ]);
  const stored = await decodeImage(await encodeJpeg(IMAGE, 75));
  const same = withChunksOf(stored, ["iCCP", profileOf("png-adobe")]);
  const photo = await decodeImage(await encodeJpeg(IMAGE, 75, exif));
  const { difference, text } = worstSample(photo, await decodeImage(same));
  assert.ok(difference <= 1, text);
  assert.notDeepEqual(photo.data, stored.data);
});
