/**
 * Draws `docs/readme.png` with the bundled model, as the commands in README.md do: an image, an edit of it, an image
 * with a LoRA, and every other frame of a video.
 *
 *     deno run -A tools/readme_image.ts
 */
import { contactSheet } from "../media/contact_sheet.ts";
import { encodePng } from "../media/png.ts";
import { loadModel } from "../mod.ts";

const SEED = 7;

if (import.meta.main) {
  await using model = await loadModel();
  const [star] = await model.generate({ prompt: "a yellow star on a blue background", seed: SEED });
  const [red] = await model.generate({ prompt: "make the star red", images: [star], seed: SEED });
  const loras = [{ path: "outline" }];
  const [heart] = await model.generate({ prompt: "a red heart", loras, seed: SEED });
  const prompt = "a red circle grows";
  const video = await model.generateVideo({ prompt, numFrames: 9, seed: SEED });
  const frames = [0, 2, 4, 6, 8].map((index) => video.frame(index));
  const cells = [star, red, heart, ...frames].map(({ width, height, data }) => ({
    ...{ width, height, data },
  }));
  const sheet = contactSheet(cells, { columns: cells.length, gap: 4 });
  await Deno.writeFile(new URL("../docs/readme.png", import.meta.url), encodePng(sheet));
}
