// OpenAI's own client draws on a server of denoise: `node openai.mjs heart.png http://127.0.0.1:30000`, after
// `npm install openai`. Bun and `deno run -A` take it, too.
import { writeFile } from "node:fs/promises";
import process from "node:process";
import OpenAI from "openai";

const [, , path = "heart.png", url = "http://127.0.0.1:30000"] = process.argv;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: process.env.DENOISE_API_KEY ?? "none" });
const { data } = await client.images.generate({
  prompt: "a red heart",
  size: "96x96",
  output_format: "png",
});
await writeFile(path, Uint8Array.from(atob(data[0].b64_json), (sign) => sign.charCodeAt(0)));
console.log(path);
