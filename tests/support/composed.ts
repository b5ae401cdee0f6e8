/** Models whose parts lie in several goldens. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { Golden } from "./golden.ts";
import { withFolder } from "./safetensors.ts";

/** Parts that Chroma has of FLUX.1, with its own names. */
const PARTS_OF_FLUX1 = {
  text_encoder_2: "text_encoder",
  tokenizer_2: "tokenizer",
  vae: "vae",
};

/**
 * Makes a model's folder: each part of the first golden that has it.
 *
 * @param goldens such as that of a ControlNet, then those of the model
 */
export async function withComposed(
  goldens: readonly Golden[],
  use: (folder: string) => Promise<void>,
): Promise<void> {
  await withFolder({}, async (folder) => {
    for (const golden of goldens.toReversed()) cpSync(golden.folder, folder, { recursive: true });
    await use(folder);
  });
}

/**
 * Calls `use` with the folder of the small Chroma model.
 *
 * @param goldens that have parts in place of its own
 */
export async function withChroma(
  use: (folder: string) => Promise<void>,
  goldens: readonly Golden[] = [],
): Promise<void> {
  const flux1 = new Golden("flux1/dev").folder;
  await withComposed([...goldens, new Golden("chroma")], async (folder) => {
    for (const [from, to] of Object.entries(PARTS_OF_FLUX1)) {
      cpSync(join(flux1, from), join(folder, to), { recursive: true });
    }
    await use(folder);
  });
}
