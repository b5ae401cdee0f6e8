/**
 * What Open WebUI asks an image server of its engine "openai", and how it reads the answer.
 *
 * Source: `backend/open_webui/routers/images.py` of open-webui/open-webui, commit 02530d5.
 */

import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";

/** Models of which it asks for no format: its default for `IMAGE_URL_RESPONSE_MODELS_REGEX_PATTERN`. */
const WITHOUT_FORMAT = /^gpt-image/;

/** Where requests go, and the model and the size of its settings. */
interface OpenWebui {
  readonly url: string;
  readonly model: string;
  readonly size: string;
}

interface Answer {
  readonly data: readonly { readonly url?: string | null; readonly b64_json?: string | null }[];
}

/** Asks for images; gives their bytes. */
export async function generate(webui: OpenWebui, prompt: string, n = 1): Promise<Buffer[]> {
  const { url, model, size } = webui;
  const format = WITHOUT_FORMAT.test(model) ? {} : { response_format: "b64_json" };
  const response = await fetch(`${url}/v1/images/generations`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer unused" },
    body: JSON.stringify({ model, prompt, n, size, ...format }),
  });
  return await readAnswer(response);
}

/** Has images edited; gives their bytes. */
export async function edit(
  webui: OpenWebui,
  prompt: string,
  images: readonly Uint8Array<ArrayBuffer>[],
): Promise<Buffer[]> {
  const { url, model, size } = webui;
  const form = new FormData();
  form.append("model", model);
  form.append("prompt", prompt);
  form.append("n", "1");
  form.append("size", size);
  if (!WITHOUT_FORMAT.test(model)) form.append("response_format", "b64_json");
  // Always a list here: its chats send one.
  for (const image of images) {
    form.append("image[]", new Blob([image], { type: "image/png" }), "in.png");
  }
  const headers = { authorization: "Bearer unused" };
  return await readAnswer(
    await fetch(`${url}/v1/images/edits`, { method: "POST", headers, body: form }),
  );
}

/** A link goes before the file, and one that is no whole address is read as the file. */
async function readAnswer(response: Response): Promise<Buffer[]> {
  assert.ok(response.ok, `${response.status} ${response.ok ? "" : await response.text()}`);
  const { data } = await response.json() as Answer;
  return await Promise.all(data.map(async ({ url, b64_json }) => {
    const source = url || b64_json;
    assert.ok(source, "neither a link nor a file");
    if (!/^https?:\/\//.test(source)) return Buffer.from(source, "base64");
    // It refuses addresses of private networks, as this server's is.
    const { hostname } = new URL(source);
    assert.ok(!/^(?:127\.|localhost$)/.test(hostname), `it does not fetch from ${hostname}`);
    return Buffer.from(await (await fetch(source)).arrayBuffer());
  }));
}
