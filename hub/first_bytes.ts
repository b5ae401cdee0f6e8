/** What a file is that is not what its reader wants, by its first bytes. */

/** As many first bytes as {@link foreignFile} looks at. */
export const FIRST_BYTES = 64;

const PICKLE = "a Python pickle that PyTorch did not save";

/** Bytes of files that are often taken for others, as Latin-1, with their offset. */
const SIGNS: readonly (readonly [offset: number, bytes: string, kind: string])[] = [
  [0, "PK\x03\x04", "a zip archive, as PyTorch writes its files"],
  ...["\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"].map((sign) => [0, sign, PICKLE] as const),
  [0, "GGUF", "a GGUF file"],
  [4, "\0\0\0\0{", "a safetensors file"],
  [0, "\x89HDF", "an HDF5 file"],
  [0, "\x1f\x8b", "a gzip archive"],
  [0, "7z\xbc\xaf", "a 7z archive"],
  [0, "Rar!", "a RAR archive"],
  [0, "\x89PNG", "a PNG image"],
  [0, "\xff\xd8\xff", "a JPEG image"],
  [0, "GIF8", "a GIF image"],
  [8, "WEBP", "a WebP image"],
  ...["II*\0", "MM\0*"].map((sign) => [0, sign, "a TIFF image"] as const),
  ...["avif", "avis"].map((brand) => [4, `ftyp${brand}`, "an AVIF image"] as const),
  ...["heic", "heix", "mif1"].map((brand) => [4, `ftyp${brand}`, "a HEIC image"] as const),
  [4, "ftypM4A", "an M4A sound"],
  [4, "ftypqt", "a QuickTime video"],
  [4, "ftyp", "an MP4 video"],
  [8, "AVI ", "an AVI video"],
  [0, "\x1aE\xdf\xa3", "a WebM or Matroska video"],
  [8, "WAVE", "a WAV sound"],
  [0, "fLaC", "a FLAC sound"],
  [0, "OggS", "an Ogg sound"],
  ...["ID3", "\xff\xfb", "\xff\xf3"].map((sign) => [0, sign, "an MP3 sound"] as const),
  [0, "%PDF", "a PDF document"],
];

const MEDIA = / (?:image|video|sound|document)$/;

/** What a file of pictures, sound or pages is, by its first bytes, such as `a WAV sound`; nothing for all else. */
export function mediaKind(head: Uint8Array): string | undefined {
  const kind = signOf(String.fromCharCode(...head.subarray(0, FIRST_BYTES)));
  return kind && MEDIA.test(kind) ? kind : undefined;
}

function signOf(bytes: string): string | undefined {
  return SIGNS.find(([offset, sign]) => bytes.startsWith(sign, offset))?.[2];
}

/** How a file begins that was cloned without its large files. */
const LFS_POINTER = "version https://git-lfs";

/** What a file is by its first {@link FIRST_BYTES} bytes, if its reader does not want it, in words after a colon. */
export function foreignFile(head: Uint8Array, wanted: string): string | undefined {
  const bytes = String.fromCharCode(...head.subarray(0, FIRST_BYTES));
  if (bytes.startsWith(LFS_POINTER)) {
    return "it is a Git LFS pointer and not the file itself; run git lfs pull";
  }
  const kind = signOf(bytes);
  if (kind) {
    return `it is ${kind}; ${MEDIA.test(kind) ? "give a file of" : "fetch it as"} ${wanted}`;
  }
  const text = readText(head);
  if (text === undefined) return undefined;
  if (text.startsWith("<")) {
    return "it is a web page and not the file itself, as sites answer without a login; " +
      `log in, and fetch the file as ${wanted}`;
  }
  const what = /^[[{]/.test(text) ? "JSON" : `text that begins with ${JSON.stringify(text)}`;
  return `it is ${what}; give a file of ${wanted}`;
}

/** The text that a file begins with, on one line and without a byte order mark; nothing where it is none. */
function readText(head: Uint8Array): string | undefined {
  try {
    // The last character may be cut.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
    // deno-lint-ignore no-control-regex
    if (/[\x00-\x08\x0e-\x1f\x7f]/.test(text)) return undefined;
    return text.trim().replace(/\s+/g, " ") || undefined;
  } catch {
    return undefined;
  }
}
