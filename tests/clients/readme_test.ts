/** The command lines of README.md and docs/getting-started.md, in their order (`deno task test:clients`). */

import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { startProcess } from "../e2e/server_process.ts";

const ROOT = new URL("../../", import.meta.url);

/** Sections whose lines need nothing but what comes with denoise, by their documents. */
const SECTIONS = {
  "README.md": ["## First image", "## Server"],
  "docs/getting-started.md": ["## Make something", "## Ask a server"],
};

const isWanted = Deno.env.has("DENOISE_CLIENTS");

/** The command lines of a section, those that go on in the next line in one piece. */
function linesOf(file: string, section: string): string[] {
  const text = Deno.readTextFileSync(new URL(file, ROOT));
  const begin = text.indexOf(`${section}\n`);
  assert.ok(begin >= 0, section);
  const end = text.indexOf("\n##", begin + section.length);
  return [...text.slice(begin, end).matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
    .flatMap(([, block]) => block!.replaceAll("\\\n", " ").trim().split("\n"));
}

async function hasCurl(): Promise<boolean> {
  try {
    return (await new Deno.Command("curl", { args: ["--version"] }).output()).success;
  } catch {
    return false;
  }
}

/** All lines of a document. */
function linesIn([file, sections]: [string, string[]]): string[] {
  return sections.flatMap((section) => linesOf(file, section));
}

const reason = isWanted ? await hasCurl() ? "" : ": there is no curl" : " (deno task test:clients)";

Deno.test({
  name: `the command lines of the documents work in their order${reason}`,
  ignore: reason !== "",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    await using server = await startProcess(folder);
    try {
      await Deno.symlink(fileURLToPath(new URL("denoise", ROOT)), `${folder}/denoise`);
      const ids = new Map<string, string>();
      for (const line of Object.entries(SECTIONS).flatMap(linesIn)) {
        const command = line
          .replace("http://127.0.0.1:30000", server.url)
          .replace(/(img|video)_…/, (_, kind) => ids.get(kind) ?? `no id of ${kind} so far`);
        const { success, stdout, stderr } = await new Deno.Command("sh", {
          args: ["-c", command],
          cwd: folder,
        }).output();
        const [out, said] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
        assert.ok(success, `${line}\n${out}\n${said}`);
        assert.doesNotMatch(out!, /^\{"error"/, `${line}\n${out}`);
        for (const [id, kind] of out!.matchAll(/\b(img|video)_[0-9a-f-]{36}/g)) ids.set(kind!, id);
        for (const [, file] of line.matchAll(/--output (\S+)/g)) {
          assert.ok((await Deno.stat(`${folder}/${file}`)).size > 0, line);
        }
      }
      const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
      for (const fetched of [/^img_.*\.jpg$/, /^video_.*\.mp4$/]) {
        assert.ok(names.some((name) => fetched.test(name)), `${fetched} in ${names}`);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
