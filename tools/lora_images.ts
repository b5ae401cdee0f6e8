/**
 * Draws `docs/bundled-adapters.png` with the bundled model: a column for each prompt, and from above without LoRAs,
 * with `outline`, with `pastel` and with both, from the same noise.
 *
 *     deno run -A tools/lora_images.ts
 */
import { contactSheet } from "../media/contact_sheet.ts";
import { encodePng } from "../media/png.ts";
import { loadModel } from "../mod.ts";

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
const LORAS = [[], ["outline"], ["pastel"], ["outline", "pastel"]];
const SEED = 3;

if (import.meta.main) {
  await using model = await loadModel();
  const images = [];
  for (const names of LORAS) {
    for (const prompt of PROMPTS) {
      const loras = names.map((path) => ({ path }));
      const [image] = await model.generate({ prompt, seed: SEED, loras });
      const { width, height, data } = image;
      images.push({ width, height, data });
    }
  }
  const sheet = contactSheet(images, { columns: PROMPTS.length, gap: 4 });
  await Deno.writeFile(new URL("../docs/bundled-adapters.png", import.meta.url), encodePng(sheet));
}
