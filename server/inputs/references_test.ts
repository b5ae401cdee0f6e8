import { ApiError } from "../contract/errors.ts";
import { InputFolder } from "./input_folder.ts";
import { imageReader, openImage, readImage, resolveReferences } from "./references.ts";
import { strict as assert } from "node:assert";
import { dirname } from "node:path";
import { encodeJpeg } from "../../media/jpeg.ts";
import { decodePng } from "../../media/png_decode.ts";
import { gif, plainWebp } from "../../tests/support/hostile_images.ts";
import { slopes } from "../../tests/support/pixels.ts";

/** Brings one file inside of a request to disk; the text of the refusal where it is refused. */
async function resolve(url: string): Promise<string> {
  const root = await Deno.makeTempDir();
  const folder = new InputFolder(root, "img_1");
  try {
    const options = { folder, takesVideo: false, allowPrivateUrls: false };
    const [file] = await resolveReferences([{ field: "image", url }], options);
    return file!.kind;
  } catch (error) {
    assert.ok(error instanceof ApiError && error.status === 400, String(error));
    return error.message;
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("resolveReferences() takes files inside of a request, and refuses what only begins like one", async () => {
  assert.equal(await resolve("data:image/png;name=a.png;base64,AAAA"), "image");
  for (const pump of [";a=b", ";", "=", "a/", "image/png;"]) {
    const start = performance.now();
    assert.match(
      await resolve(`data:image/png${pump.repeat(2e6)};base64,AAAA`),
      /must be like data/,
    );
    assert.ok(performance.now() - start < 1000, pump);
  }
});

Deno.test("resolveReferences() takes a GIF of one frame and a BMP of any length for images", async () => {
  const root = await Deno.makeTempDir();
  const folder = new InputFolder(root, "video_1");
  const kind = async (field: string, bytes: Uint8Array) => {
    const url = `data:;base64,${bytes.toBase64()}`;
    const options = { folder, takesVideo: true, allowPrivateUrls: false };
    return (await resolveReferences([{ field, url }], options))[0]!.kind;
  };
  const head = [..."GIF89a"].map((letter) => letter.charCodeAt(0));
  const frame = [0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0];
  const gif = (frames: number) =>
    Uint8Array.from([...head, 1, 0, 1, 0, 0, 0, 0, ...Array(frames).fill(frame).flat(), 0x3b]);
  assert.equal(await kind("input_reference", gif(1)), "image");
  assert.equal(await kind("input_reference", gif(2)), "video");
  assert.equal(await kind("video_reference", gif(1)), "video");
  // Its length has the byte that begins a pack of MPEG.
  const bmp = Uint8Array.from([0x42, 0x4d, 0x36, 0xba, ...Array(60).fill(0)]);
  assert.equal(await kind("input_reference", bmp), "image");
  await Deno.remove(root, { recursive: true });
});

/** Writes an upload, and removes it with all that was made of it. */
async function withUpload(
  bytes: Uint8Array,
  use: (file: { field: string; path: string; kind: "image" }, folder: InputFolder) => Promise<void>,
): Promise<void> {
  const folder = new InputFolder(await Deno.makeTempDir(), "img_1");
  try {
    await use({ field: "image", path: await folder.write("upload", bytes), kind: "image" }, folder);
  } finally {
    await Deno.remove(dirname(folder.path), { recursive: true });
  }
}

Deno.test("openImage() refuses a file that is too long for an image", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.truncate(path, 64 * 2 ** 20 + 1);
    await assert.rejects(openImage({ field: "image", path, kind: "image" }), (error) => {
      assert.ok(error instanceof ApiError);
      assert.equal(error.status, 413);
      assert.match(error.message, /it has 67108865 bytes, and at most 67108864 are read$/);
      return true;
    });
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("imageReader() takes a photo upright, and leaves what a model takes", async () => {
  // Orientation 6: what is stored in rows is seen in columns.
  const exif = Uint8Array.of(
    ...[0x4d, 0x4d, 0, 42, 0, 0, 0, 8, 0, 1],
    ...[0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0],
  );
  await withUpload(await encodeJpeg(slopes(60, 40), 75, exif), async (file, folder) => {
    const reader = imageReader({ folder, allowPrivateUrls: false });
    const image = await reader.open(file);
    assert.deepEqual(image, { ...file, format: "jpeg", width: 40, height: 60 });
    const size = { width: 16, height: 32 };
    const { image: path } = await reader.fit(image, { cover: size });
    assert.deepEqual(await readImage(path), decodePng(await Deno.readFile(path)));
    const { width, height } = await readImage(path);
    assert.deepEqual({ width, height }, size);
  });
});

Deno.test("openImage() refuses what claims to be huge with 400 and the code invalid_source", async () => {
  for (
    const [bytes, message] of [
      [gif([1, 1], [40_000, 40_000]), /a frame of 40000x40000 at \(0, 0\) does not lie on its 1x1/],
      [plainWebp(8192, 8192), /at most 33554432 are allowed; send a smaller one/],
    ] as const
  ) {
    await withUpload(bytes, async (file) => {
      await assert.rejects(openImage(file), (error) => {
        assert.ok(error instanceof ApiError);
        assert.equal(error.status, 400);
        assert.equal(error.body.error.code, "invalid_source");
        assert.equal(error.body.error.param, "image");
        assert.match(error.message, message);
        return true;
      });
    });
  }
});

Deno.test("openImage() says 429 with retry-after where too many wait, and serves the others", async () => {
  await withUpload(plainWebp(64, 64), async (file) => {
    const answers = await Promise.allSettled(Array.from({ length: 320 }, () => openImage(file)));
    const refused = answers.filter((answer) => answer.status === "rejected");
    assert.ok(refused.length > 0 && refused.length < 320 / 2, `${refused.length} are refused`);
    for (const { reason } of refused) {
      assert.ok(reason instanceof ApiError);
      assert.equal(reason.status, 429);
      assert.equal(reason.headers?.["retry-after"], "5");
      assert.match(
        reason.message,
        /^Cannot read the images of the request: 256 of yours wait already; try/,
      );
    }
    assert.equal((await openImage(file)).width, 64);
  });
});
