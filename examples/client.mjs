// Lets a server draw, and says how far it is: `node client.mjs http://127.0.0.1:30000 heart.jpg`, after `npm install denoise`.
// Bun and `deno run -A` take it, too.
import { writeFile } from "node:fs/promises";
import process from "node:process";
import { Client } from "denoise/client";

const [, , url = "http://127.0.0.1:30000", path = "heart.jpg"] = process.argv;
const client = new Client({ url, apiKey: process.env.DENOISE_API_KEY });
for await (const event of client.image({ prompt: "a red heart", seed: 7 })) {
  if (event.type === "progress") console.log(`${Math.round(100 * event.fraction)} %`);
  if (event.type !== "completed") continue;
  const [output] = event.job.outputs;
  const file = await client.download(output);
  await writeFile(path, new Uint8Array(await file.arrayBuffer()));
  console.log(`${path}: ${event.job.size}, seed ${output.seed}`);
}
