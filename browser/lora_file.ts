/** LoRAs of a tab by path or address; stands in for `hub/lora_file.ts`. */
import { NotFoundError } from "../platform/mod.ts";
import { find, mount } from "./files.ts";

/** The path of a LoRA in the table: the `loras` of `loadModel()` have it by name; an address is fetched once. */
export async function obtainLora(pathOrUrl: string): Promise<string> {
  if (find(pathOrUrl)) return pathOrUrl;
  const url = URL.canParse(pathOrUrl) ? new URL(pathOrUrl) : undefined;
  if (!url) {
    throw new NotFoundError(
      `Cannot open LoRA ${pathOrUrl}: give an address, or a name of loadModel's \`loras\``,
    );
  }
  const path = `/loras/${encodeURIComponent(url.href)}/${url.pathname.split("/").at(-1)}`;
  if (find(path)) return path;
  const answer = await fetch(url);
  if (!answer.ok) {
    throw new NotFoundError(`Cannot open LoRA ${url}: its server says ${answer.status}`);
  }
  mount(path, { kind: "blob", blob: await answer.blob() });
  return path;
}
