/** Files that are brought: what they are, and the recipe of an image, which can be used instead of the image. */

import { callJson } from "./api.ts";
import { draft, setImages } from "./draft.ts";
import type { Recipe } from "./jobs.ts";
import { dataUrlOf } from "./media.ts";
import { applyRecipe } from "./request.ts";
import { Store } from "./store.ts";
import { t } from "./texts.ts";
import { tell } from "./view.ts";

interface Offer {
  name: string;
  /** The image that it came with. */
  blob: Blob;
  recipe: Partial<Recipe>;
  /** What the file says and the server does not know. */
  unused: string[];
}

export const offer: Store<{ found: Offer | null }> = new Store<{ found: Offer | null }>({
  found: null,
});

/** What stands in files that may say how they were made; others are not sent to be read. */
const SIGNS = /parameters|denoise|UNICODE|prompt/;

/** Looks for a recipe, and offers it. A file without one is as good as one that cannot be read. */
export async function offerRecipe(file: File | undefined): Promise<void> {
  offer.set({ found: null });
  if (!file) return;
  try {
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (!SIGNS.test(new TextDecoder("latin1").decode(bytes))) return;
    const image = await dataUrlOf(file);
    const { recipe, unused } = await callJson<{ recipe: Offer["recipe"] | null; unused: string[] }>(
      "sdapi/v1/png-info",
      {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ image }),
      },
    );
    if (recipe) offer.set({ found: { name: file.name, blob: file, recipe, unused } });
  } catch {
    // The image itself is refused when it is drawn with.
  }
}

/** Puts the recipe into the draft, in place of the image. */
export function takeOffer(): void {
  const { found } = offer.state;
  if (!found) return;
  offer.set({ found: null });
  setImages(draft.state.images.filter(({ blob }) => blob !== found.blob));
  const unused = [...found.unused, ...applyRecipe(found.recipe)];
  tell(unused.length > 0 ? t("notUsed", { name: found.name, what: unused.join("; ") }) : "");
}

type FileKind = "image" | "clip" | "sound" | "lora";

const IMAGE = /^(?:\x89PNG|\xff\xd8\xff|RIFF.{4}WEBP|GIF8[79]a|BM)/s;
const CLIP = /^(?:.{4}(?:ftyp|moov|mdat|wide|free)|.E\xdf\xa3|RIFF.{4}AVI )/s;
/** Images in the container of MP4, which the server does not read. */
const OTHER_IMAGE = /^.{4}ftyp(?:avi[fs]|hei|hev|mif1|msf1)/s;

/** Whether a byte stands in no text: a control character but tab, line feed and carriage return. */
const isControl = (byte: number) => byte < 9 || byte > 13 && byte < 32;

/** How safetensors files begin: the length of their header, and the header. */
const SAFETENSORS = /^.{6}\0\0\{/s;

/** Tells images, clips, sounds and LoRAs from each other; anything else is an error with a sentence for people. */
export async function kindOf(file: File): Promise<FileKind> {
  const bytes = new Uint8Array(await file.slice(0, 64).arrayBuffer());
  const start = String.fromCharCode(...bytes);
  const isText = !bytes.some(isControl);
  const refuse = (why: string) => new Error(t("cannotUse", { name: file.name, why }));
  if (start === "") throw refuse(t("fileEmpty"));
  if (IMAGE.test(start) && !(isText && start.startsWith("BM"))) {
    const image = await createImageBitmap(file).catch(() => {
      throw refuse(t("fileBroken"));
    });
    image.close();
    return "image";
  }
  if (SAFETENSORS.test(start) && file.name.endsWith(".safetensors")) return "lora";
  if (/\.(?:safetensors|ckpt|pth?)$/i.test(file.name)) throw refuse(t("fileNoLora"));
  if (!isText && file.type.startsWith("audio/")) return "sound";
  if (!OTHER_IMAGE.test(start)) {
    if (CLIP.test(start) || !isText && file.type.startsWith("video/")) return "clip";
  }
  throw refuse(t(OTHER_IMAGE.test(start) ? "fileAvif" : isText ? "fileText" : "fileOther"));
}
