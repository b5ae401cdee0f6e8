/** The programs of examples/, each as its reader starts it. */
import { strict as assert } from "node:assert";
import { join } from "node:path";
import { ROOT } from "../tools/root.ts";
import { startProcess } from "./e2e/server_process.ts";

const isSlow = Deno.env.has("DENOISE_SLOW");

/** What each program is started with, in a folder of its own, beside a server; and the files that it makes. */
const EXAMPLES: Readonly<Record<string, (url: string) => [args: string[], files: string[]]>> = {
  "draw.mjs": () => [["heart.png", "2"], ["heart.png"]],
  "edit.mjs": () => [[".", "2"], ["star.png", "red.png", "half.png"]],
  "video.mjs": () => [[".", "2"], ["circle.mp4", "last.png"]],
  "lora.mjs":
    () => [[".", "2"], ["heart-0.png", "heart-0.4.png", "heart-0.8.png", "heart-1.2.png"]],
  "plan.mjs": () => [[], []],
  "client.mjs": (url) => [[url, "heart.jpg"], ["heart.jpg"]],
  "batch.mjs": (url) => [["prompts.txt", ".", url], ["001.jpg", "002.jpg"]],
  "models.mjs": (url) => [[url], []],
  "openai.mjs": (url) => [["heart.png", url], ["heart.png"]],
};

async function started(folder: string, name: string, args: readonly string[]) {
  const manifest = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
  const imports = Object.fromEntries([
    ...Object.entries(manifest.exports as Record<string, string>).map(([entry, path]) => [
      entry.replace(/^\./, "denoise"),
      new URL(path, ROOT).href,
    ]),
    ["openai", manifest.imports.openai],
  ]);
  const config = join(folder, "deno.json");
  await Deno.writeTextFile(config, JSON.stringify({ imports, unstable: manifest.unstable }));
  const program = join(folder, name);
  await Deno.copyFile(new URL(`examples/${name}`, ROOT), program);
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--config", config, program, ...args],
    cwd: folder,
    stdout: "piped",
    stderr: "piped",
  });
}

Deno.test({
  name: "the programs of examples/ do what they say (slow)",
  ignore: !isSlow,
  async fn(t) {
    const folder = await Deno.makeTempDir();
    await using server = await startProcess(folder);
    const all = [...Deno.readDirSync(new URL("examples/", ROOT))].map(({ name }) => name);
    assert.deepEqual(all.toSorted(), [...Object.keys(EXAMPLES), "mount.mjs"].toSorted());
    for (const [name, use] of Object.entries(EXAMPLES)) {
      await t.step(name, async () => {
        const own = join(folder, name.replace(".mjs", ""));
        await Deno.mkdir(own);
        await Deno.writeTextFile(join(own, "prompts.txt"), "a red heart\na blue star\n");
        const [args, files] = use(server.url);
        const { success, stderr, stdout } = await (await started(own, name, args)).output();
        assert.ok(success, new TextDecoder().decode(stderr));
        const said = new TextDecoder().decode(stdout);
        assert.match(said, /\w/);
        assert.doesNotMatch(said, /NaN|undefined|null/);
        for (const file of files) assert.ok((await Deno.stat(join(own, file))).size > 0, file);
      });
    }
    await t.step("mount.mjs", async () => {
      const own = join(folder, "mount");
      await Deno.mkdir(own);
      const child = (await started(own, "mount.mjs", ["0"])).spawn();
      const lines = child.stdout.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
      const [, url] = /Draw at (\S+)/.exec((await lines.next()).value ?? "")!;
      const models = await (await fetch(new URL("v1/models", url))).json();
      assert.equal(models.data[0].id, "bundled");
      assert.equal(await (await fetch(new URL("/", url))).text(), "My own page\n");
      child.kill("SIGINT");
      assert.ok((await child.status).success);
      await Promise.all([lines.return?.(), child.stderr.cancel()]);
    });
    await Deno.remove(folder, { recursive: true });
  },
});
