// Draws each line of a file on a server, all queued at once: `node batch.mjs prompts.txt FOLDER http://127.0.0.1:30000`.
// Ctrl-C cancels what is left. Bun and `deno run -A` take it, too.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { Client } from "denoise/client";

const [, , list = "prompts.txt", folder = ".", url = "http://127.0.0.1:30000"] = process.argv;
const client = new Client({ url, apiKey: process.env.DENOISE_API_KEY });
const prompts = (await readFile(list, "utf8")).split("\n").map((line) => line.trim())
  .filter((line) => line !== "");
const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
const results = await Promise.allSettled(prompts.map(async (prompt, i) => {
  for await (const event of client.image({ prompt, seed: 7 }, { signal: stop.signal })) {
    if (event.type !== "completed") continue;
    const file = await client.download(event.job.outputs[0]);
    const name = `${String(i + 1).padStart(3, "0")}.jpg`;
    await writeFile(join(folder, name), new Uint8Array(await file.arrayBuffer()));
    console.log(`${name}: ${prompt}`);
  }
}));
for (const { reason } of results) if (reason) console.error(reason.message);
process.exitCode = results.some(({ reason }) => reason) ? 1 : 0;
