/** Draws `docs/readme.png` and `docs/bundled-adapters.png` with the bundled model (`deno run -A tools/doc_images.ts`). */
import { contactSheet } from "./contact_sheet.ts";
import type { PixelImage } from "../media/image.ts";
import { encodePng } from "../media/png.ts";
import { loadModel, type Model } from "../mod.ts";

const SEED = 7;

/** An image, an edit of it, an image with a LoRA, and every other frame of a video. */
async function readme(model: Model): Promise<PixelImage[]> {
  const [star] = await model.generate({ prompt: "a yellow star on a blue background", seed: SEED });
  const [red] = await model.generate({ prompt: "make the star red", images: [star], seed: SEED });
  const loras = [{ path: "outline" }];
  const [heart] = await model.generate({ prompt: "a red heart", loras, seed: SEED });
  const prompt = "a red circle grows";
  const video = await model.generateVideo({ prompt, numFrames: 9, seed: SEED });
  return [star, red, heart, ...[0, 2, 4, 6, 8].map((index) => video.frame(index))];
}

const ADAPTER_SEED = 3;
const LORAS = [[], ["outline"], ["pastel"], ["outline", "pastel"]];
const PROMPTS = [
  "a red heart",
  "a blue star to the left of a purple circle",
  "three orange diamonds",
  "a green triangle in the top left corner",
  "a brown square on a yellow background",
  "a large purple ring",
  "a pink moon",
  "four cyan circles",
];

/** A row for each set of LoRAs, a column for each prompt. */
async function adapters(model: Model): Promise<PixelImage[]> {
  const images: PixelImage[] = [];
  for (const names of LORAS) {
    const loras = names.map((path) => ({ path }));
    for (const prompt of PROMPTS) {
      images.push(...await model.generate({ prompt, seed: ADAPTER_SEED, loras }));
    }
  }
  return images;
}

async function write(path: string, images: readonly PixelImage[], columns: number): Promise<void> {
  const cells = images.map(({ width, height, data }) => ({ width, height, data }));
  const png = encodePng(contactSheet(cells, columns, 4));
  await Deno.writeFile(new URL(`../docs/${path}`, import.meta.url), png);
}

if (import.meta.main) {
  await using model = await loadModel();
  const images = await readme(model);
  await write("readme.png", images, images.length);
  await write("bundled-adapters.png", await adapters(model), PROMPTS.length);
}
