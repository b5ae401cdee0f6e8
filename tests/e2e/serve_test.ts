import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { decodeImage } from "../../media/decode.ts";

const ROOT = new URL("../../", import.meta.url);

Deno.test("denoise serve loads the bundled model, generates, and ends on SIGTERM with 0", async () => {
  const folder = await Deno.makeTempDir();
  const config = fileURLToPath(new URL("deno.json", ROOT));
  const cli = fileURLToPath(new URL("cli.ts", ROOT));
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--config", config, cli, "serve", "--port", "0"],
    cwd: folder,
    env: { NO_COLOR: "1" },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let log = "";
  const ready = Promise.withResolvers<string>();
  const reading = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      log += text;
      const url = /^Ready: bundled is served on (\S+)$/m.exec(log)?.[1];
      if (url) ready.resolve(url);
    }
    ready.reject(new Error(`Cannot go on: the server ended\n${log}`));
  })();
  try {
    const url = await ready.promise;
    const { data: [model] } = await (await fetch(`${url}/v1/models`)).json();
    assert.equal(model.id, "bundled");
    const response = await fetch(`${url}/v1/images/generations`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        prompt: "a red circle",
        size: "64x64",
        num_inference_steps: 2,
        output_format: "png",
      }),
    });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    const content = await fetch(url + body.data[0].url);
    const { width, height } = await decodeImage(await content.bytes());
    assert.deepEqual([width, height], [64, 64]);

    child.kill("SIGTERM");
    const { code } = await child.status;
    assert.equal(code, 0, log);
    assert.match(log, /^Stopping; /m);
    await reading;
  } finally {
    try {
      child.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
    await child.status;
    await Deno.remove(folder, { recursive: true });
  }
});
