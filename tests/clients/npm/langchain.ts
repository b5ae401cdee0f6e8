/** LangChain's tool for images. */

import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";
import { DallEAPIWrapper } from "@langchain/openai";
import { url } from "./image.ts";

const connection = { apiKey: "unused", baseUrl: `${url}/v1` };

const linked = await new DallEAPIWrapper({ ...connection, model: "dall-e-3" })
  .invoke("a red circle");
assert.match(linked, /^http/, "a link leads to the image from anywhere");
const answer = await fetch(linked);
assert.equal(answer.headers.get("content-type"), "image/jpeg");
await answer.body?.cancel();

const file: string = await new DallEAPIWrapper({
  ...connection,
  ...{ model: "bundled", quality: "hd", style: "natural", dallEResponseFormat: "b64_json" },
}).invoke("a red circle");
assert.deepEqual([...Buffer.from(file, "base64").subarray(0, 2)], [0xff, 0xd8]);
console.log("done");
