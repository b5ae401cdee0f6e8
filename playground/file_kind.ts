/** What a file is by its first bytes: names and types say what somebody meant. */

/** What the page can do with a file. */
type FileKind = "image" | "clip";

const IMAGE = /^(?:\x89PNG|\xff\xd8\xff|RIFF.{4}WEBP|GIF8[79]a|BM)/s;
const CLIP = /^(?:.{4}(?:ftyp|moov|mdat|wide|free)|.E\xdf\xa3|RIFF.{4}AVI )/s;
/** Images in the container of MP4, which the server does not read. */
const OTHER_IMAGE = /^.{4}ftyp(?:avi[fs]|hei|hev|mif1|msf1)/s;

/** Whether a byte stands in no text: a control character but tab, line feed and carriage return. */
const isControl = (byte: number) => byte < 9 || byte > 13 && byte < 32;

/**
 * Looks at a file.
 *
 * @throws {Error} for what is neither an image nor a clip, with a sentence for people
 */
export async function kindOf(file: File): Promise<FileKind> {
  const bytes = new Uint8Array(await file.slice(0, 64).arrayBuffer());
  const start = String.fromCharCode(...bytes);
  const isText = !bytes.some(isControl);
  if (start === "") throw new Error(`Cannot use ${file.name}: it is empty.`);
  if (IMAGE.test(start) && !(isText && start.startsWith("BM"))) return "image";
  if (!OTHER_IMAGE.test(start)) {
    if (CLIP.test(start) || !isText && file.type.startsWith("video/")) return "clip";
  }
  const what = OTHER_IMAGE.test(start)
    ? "it is AVIF or HEIC"
    : isText
    ? "it is text"
    : "it is no image";
  throw new Error(`Cannot use ${file.name}: ${what}; bring PNG, JPEG, WebP, GIF or BMP.`);
}
