import { strict as assert } from "node:assert";
import { decodeImage } from "../../media/decode.ts";
import { encodeImage } from "../../media/encode.ts";
import { HAS_SIGTERM, postJson, startProcess } from "./server_process.ts";

Deno.test("denoise serve loads the bundled model, generates, and ends on SIGTERM with 0", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const flags = ["--log-format", "json", "--enable-metrics", "--lora", "outline"];
    await using server = await startProcess(folder, flags);
    const { data: [model] } = await (await fetch(`${server.url}/v1/models`)).json();
    assert.equal(model.id, "bundled");
    const { active } = await (await fetch(`${server.url}/v1/list_loras`)).json();
    assert.deepEqual(Object.keys(active), ["transformer"]);
    const response = await postJson(`${server.url}/v1/images/generations`, {
      prompt: "a red circle",
      size: "64x64",
      num_inference_steps: 2,
      output_format: "png",
    });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    const content = await fetch(server.url + body.data[0].url);
    const { width, height } = await decodeImage(await content.bytes());
    assert.deepEqual([width, height], [64, 64]);

    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    assert.match(metrics, /^denoise_jobs_ended_total\{kind="image",status="completed"\} 1$/m);

    const { code } = await server.end("SIGTERM");
    if (HAS_SIGTERM) assert.equal(code, 0, server.log());
    // Drivers write to standard error what they like.
    const lines = server.log().split("\n").filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line));
    const hasStopped = lines.some(({ message }) => message.startsWith("Stopping; "));
    assert.equal(hasStopped, HAS_SIGTERM, server.log());
    assert.ok(lines.some(({ job, path }) => job === body.id && path === "/v1/images/generations"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

const ending = "denoise serve ends on SIGTERM with 0 while it loads, and by a second one at once";
Deno.test(ending, { ignore: !HAS_SIGTERM }, async () => {
  const folder = await Deno.makeTempDir();
  try {
    {
      await using loading = await startProcess(folder, [], {}, true);
      const { code } = await loading.end("SIGTERM");
      assert.equal(code, 0, loading.log());
    }
    await using server = await startProcess(folder);
    const body = { prompt: "a", size: "64x64", num_frames: 9, num_inference_steps: 500 };
    await (await postJson(`${server.url}/v1/videos`, body)).body?.cancel();
    Deno.kill(server.pid, "SIGTERM");
    while (!server.log().includes("Stopping; ")) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const { signal } = await server.end("SIGTERM");
    assert.equal(signal, "SIGTERM", server.log());
  } finally {
    // What was killed may still have written.
    await Deno.remove(folder, { recursive: true }).catch(() => {});
  }
});

// Windows keeps folders in which a process works.
const removing = "denoise serve goes on when its working folder is removed, and makes it anew";
Deno.test(removing, { ignore: !HAS_SIGTERM }, async () => {
  const folder = await Deno.makeTempDir();
  try {
    await using server = await startProcess(folder, ["--input-save-path", "uploads"]);
    await Deno.remove(folder, { recursive: true });
    const form = new FormData();
    const image = { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) };
    const { bytes } = await encodeImage(image, { format: "png" });
    form.set("image", new Blob([bytes]), "a.png");
    for (const [name, value] of [["prompt", "a"], ["size", "64x64"]] as const) {
      form.set(name, value);
    }
    const edit = await fetch(`${server.url}/v1/images/edits`, { method: "POST", body: form });
    assert.equal(edit.status, 200, await edit.text());
    const body = { prompt: "a", size: "64x64", num_frames: 9, num_inference_steps: 2 };
    const created = await postJson(`${server.url}/v1/videos`, body);
    assert.equal(created.status, 200, await created.text());
    const lora = await postJson(`${server.url}/v1/set_lora`, {
      lora_nickname: "a",
      lora_path: "gone.safetensors",
    });
    assert.equal(lora.status, 400, await lora.text());
    const { code } = await server.end("SIGTERM");
    assert.equal(code, 0, server.log());
    const names = [...Deno.readDirSync(`${folder}/outputs`)].map(({ name }) => name);
    assert.deepEqual(
      names.map((name) => /\.\w+$/.exec(name)?.[0]).sort(),
      [".jpg", ".lock", ".mp4", ".png", ".sqlite"],
      server.log(),
    );
  } finally {
    await Deno.remove(folder, { recursive: true }).catch(() => {});
  }
});
