/** `denoise/client` under Deno, Node and Bun and in Chromium, against a real server (`deno task test:clients`). */

import { strict as assert } from "node:assert";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { decodeImage } from "../../media/decode.ts";
import { makeClientBundle } from "../../tools/npm.ts";
import { ROOT } from "../../tools/root.ts";
import { startProcess } from "../e2e/server_process.ts";
import { findHomes } from "../node/homes.ts";

const isWanted = Deno.env.has("DENOISE_CLIENTS");

Deno.test({
  name: "the client library draws under Deno, Node and Bun and in Chromium with one server",
  ignore: !isWanted,
  async fn() {
    const folder = await Deno.makeTempDir();
    await using server = await startProcess(folder, ["--cors-origin", "*"]);
    const modules = join(folder, "node_modules", "denoise");
    await Deno.mkdir(modules, { recursive: true });
    await makeClientBundle(modules);
    const exports = { "./client": "./client.js" };
    const manifest = { name: "denoise", type: "module", exports };
    await Deno.writeTextFile(join(modules, "package.json"), JSON.stringify(manifest));
    const program = join(folder, "client.mjs");
    await Deno.copyFile(new URL("examples/client.mjs", ROOT), program);
    const { homes } = (await findHomes())!;
    const pictures: string[] = [];
    for (const { name, program: home, args } of homes) {
      const path = join(folder, `${name}.jpg`);
      const { success, stdout, stderr } = await new Deno.Command(home, {
        args: [...args, program, server.url, path],
        cwd: folder,
      }).output();
      const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.ok(success, `${name}: ${errors}`);
      assert.match(out!, /\d %[\s\S]*96x96, seed 7\n$/, name);
      const bytes = await Deno.readFile(path);
      assert.equal((await decodeImage(bytes)).width, 96);
      pictures.push(bytes.toBase64());
    }
    const source = await Deno.readTextFile(join(modules, "client.js"));
    const script = { "content-type": "text/javascript" };
    const site = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      ({ url }) => url.endsWith(".js") ? new Response(source, { headers: script }) : new Response(),
    );
    const browser = await chromium.launch({ executablePath: "/usr/bin/chromium" });
    try {
      const page = await browser.newPage();
      await page.goto(`http://127.0.0.1:${site.addr.port}/`);
      pictures.push(
        await page.evaluate(async (url) => {
          const { Client } = await import(`${location.origin}/client.js`);
          const client = new Client({ url });
          for await (const event of client.image({ prompt: "a red heart", seed: 7 })) {
            if (event.type !== "completed") continue;
            const file: Blob = await client.download(event.job.outputs[0]);
            return btoa(String.fromCharCode(...new Uint8Array(await file.arrayBuffer())));
          }
          return "";
        }, server.url),
      );
    } finally {
      await browser.close();
      await site.shutdown();
    }
    assert.equal(new Set(pictures).size, 1, "all get the same picture");
    await Deno.remove(folder, { recursive: true });
  },
});
