// Shows which models fit a server's GPU, and fetches one that is named: `node models.mjs http://127.0.0.1:30000 z-image-turbo`.
// Bun and `deno run -A` take it, too.
import process from "node:process";
import { Client } from "denoise/client";

const [, , url = "http://127.0.0.1:30000", wanted] = process.argv;
const client = new Client({ url, apiKey: process.env.DENOISE_API_KEY });
for (const { id, fits, good_for, state } of await client.catalogue()) {
  if (fits !== false) console.log(`${id} (${state}): ${good_for}`);
}
if (wanted) {
  for await (const pull of client.pull(wanted)) {
    console.log(`${pull.status}: ${pull.completed_bytes} of ${pull.total_bytes} bytes`);
  }
}
