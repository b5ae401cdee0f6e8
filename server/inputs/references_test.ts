import assert from "node:assert/strict";
import { ApiError } from "../contract/errors.ts";
import { InputFolder } from "./input_folder.ts";
import { resolveReferences } from "./references.ts";

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
