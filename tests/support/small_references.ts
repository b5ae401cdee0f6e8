/** A small Qwen-Image-2.1 whose references are as small as the calls of its golden have them. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { Golden } from "./golden.ts";
import { withFolder } from "./safetensors.ts";

/** Calls `use` with a copy of `qwen_image_21/pipeline`. */
export async function withSmallReferences(use: (folder: string) => Promise<void>): Promise<void> {
  await withFolder({}, async (folder) => {
    cpSync(new Golden("qwen_image_21/pipeline").folder, folder, { recursive: true });
    const path = join(folder, "model_index.json");
    const index = { ...JSON.parse(Deno.readTextFileSync(path)), output_resolution: 256 };
    Deno.writeTextFileSync(path, JSON.stringify(index));
    await use(folder);
  });
}
