/**
 * Tokenizers as they are published, put together again: T5's and UMT5's files hold the same normalization rules, of 240 kB,
 * which are stored once.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const STORED = fileURLToPath(new URL("../goldens/tokenizers/", import.meta.url));
/** What stands in the place of the rules; `tools/reference/unigram.py` has it too. */
const MARK = "@nmt_nfkc.charsmap@";

let copy: URL | undefined;

/** A copy of `tests/goldens/tokenizers` in which every file is whole; it goes when the tests of the file end. */
export function tokenizerGoldens(): URL {
  if (copy) return copy;
  const folder = Deno.makeTempDirSync();
  addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
  cpSync(STORED, folder, { recursive: true });
  const rules = Deno.readFileSync(join(STORED, "nmt_nfkc.charsmap"));
  for (const name of ["t5", "umt5"]) {
    const json = join(folder, name, "tokenizer.json");
    Deno.writeTextFileSync(json, Deno.readTextFileSync(json).replace(MARK, rules.toBase64()));
    const model = join(folder, name, "spiece.model");
    const [before, after] = cutAtMark(Deno.readFileSync(model));
    Deno.writeFileSync(model, Uint8Array.from([...before, ...rules, ...after]));
  }
  return copy = pathToFileURL(`${folder}/`);
}

function cutAtMark(bytes: Uint8Array): [Uint8Array, Uint8Array] {
  // A character of Latin-1 is a byte.
  const at = new TextDecoder("latin1").decode(bytes).indexOf(MARK);
  return [bytes.subarray(0, at), bytes.subarray(at + MARK.length)];
}
