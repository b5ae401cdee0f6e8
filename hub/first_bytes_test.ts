import assert from "node:assert/strict";
import { foreignFile, mediaKind } from "./first_bytes.ts";

const bytes = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));

Deno.test("foreignFile() names what a file is and what to do, by its first bytes", () => {
  const cases: [string, RegExp][] = [
    ["version https://git-lfs.github.com/spec/v1\noid", /Git LFS pointer .* run git lfs pull/],
    ["PK\x03\x04\x14\0\0\0archive/data.pkl", /zip archive, as PyTorch .*; fetch it as weights/],
    ["\x80\x02\x8a\nl\xfc\x9cF\xf9 j", /a Python pickle that PyTorch did not save/],
    ["GGUF\x03\0\0\0", /a GGUF file; fetch it as weights/],
    ['\x9a\x10\0\0\0\0\0\0{"__metadata__"', /a safetensors file/],
    ["\x89PNG\r\n\x1a\n\0\0\0\rIHDR", /a PNG image/],
    ["\xff\xd8\xff\xe0\0\x10JFIF", /a JPEG image/],
    ["RIFF\x10\0\0\0WEBPVP8 ", /a WebP image/],
    ["\0\0\0\x20ftypisom", /an MP4 video/],
    ["\r\n <!DOCTYPE html>", /a web page .* log in, and fetch the file as weights/],
    ['\xef\xbb\xbf{"metadata": 1}', /it is JSON; give a file of weights/],
    ["[1]", /it is JSON/],
    ["Entry not found", /text that begins with "Entry not found"/],
  ];
  for (const [head, message] of cases) assert.match(foreignFile(bytes(head), "weights")!, message);
});

Deno.test("mediaKind() names pictures, videos and sound, and nothing that may be weights", () => {
  const cases: [string, string | undefined][] = [
    ["RIFF\x10\0\0\0WAVEfmt ", "a WAV sound"],
    ["RIFF\x10\0\0\0AVI LIST", "an AVI video"],
    ["ID3\x04\0", "an MP3 sound"],
    ["\xff\xfb\x90", "an MP3 sound"],
    ["fLaC\0", "a FLAC sound"],
    ["\x1aE\xdf\xa3", "a WebM or Matroska video"],
    ["\0\0\0\x20ftypqt  ", "a QuickTime video"],
    ["\0\0\0\x20ftypavif", "an AVIF image"],
    ["%PDF-1.7", "a PDF document"],
    // Lengths of headers, which begin as sound and pictures do.
    ["\xff\xfb\0\0\0\0\0\0{", undefined],
    ["II*\0\0\0\0\0{", undefined],
    ["GGUF\x03\0\0\0", undefined],
    ["PK\x03\x04", undefined],
    ["hello", undefined],
  ];
  for (const [head, kind] of cases) assert.equal(mediaKind(bytes(head)), kind, head);
});

Deno.test("foreignFile() says nothing of bytes that tell nothing", () => {
  for (const head of ["", "\0\0\0\0", "\x01\x02\x03", "\xff\xfe\xfd", "   "]) {
    assert.equal(foreignFile(bytes(head), "weights"), undefined);
  }
});
