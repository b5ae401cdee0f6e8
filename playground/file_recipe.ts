/** The recipe that an image brings along, which can be used in place of the image. */

import { callJson } from "./api.ts";
import { draft, setImages } from "./draft.ts";
import type { Recipe } from "./jobs.ts";
import { dataUrlOf } from "./media.ts";
import { applyRecipe } from "./request.ts";
import { Store } from "./store.ts";
import { tell } from "./view.ts";

/** A recipe that was found. */
interface Offer {
  /** Name of the file. */
  name: string;
  /** The image that it came with. */
  blob: Blob;
  recipe: Partial<Recipe>;
  /** What the file says and the server does not know. */
  unused: string[];
}

/** The recipe that is offered, or none. */
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
  tell(unused.length > 0 ? `Not used from ${found.name}: ${unused.join("; ")}.` : "");
}
