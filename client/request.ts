/** Requests for images and videos, as `fetch` takes them. */

/** Fields by the names of the HTTP API; blobs, and lists of them, are files. */
export type Fields = Readonly<Record<string, unknown>>;

/** Files that make a form of the request they come with; others go into JSON where there are none of these. */
const FORM_FIELDS = ["image", "mask", "video", "audio", "input_reference", "last_image"];

interface HttpRequest {
  readonly path: string;
  readonly method: "POST";
  readonly headers: Record<string, string>;
  readonly body: BodyInit;
}

export async function requestOf(kind: "image" | "video", given: Fields): Promise<HttpRequest> {
  const { image, ...others } = given;
  const fields = kind === "video" ? { ...others, ...frameFields(blobsOf(image)) } : given;
  const texts: Record<string, unknown> = {};
  const files: [name: string, blobs: Blob[], isList: boolean][] = [];
  for (const [name, value] of Object.entries(fields)) {
    const blobs = blobsOf(value);
    if (blobs.length > 0) files.push([name, blobs, Array.isArray(value)]);
    else if (value !== undefined) texts[name] = value;
  }
  const isForm = files.some(([name]) =>
    FORM_FIELDS.includes(name) || (kind === "video" && name === "reference")
  );
  const path = kind === "video" ? "/v1/videos" : `/v1/images/${isForm ? "edits" : "generations"}`;
  const headers = { prefer: "respond-async" };
  if (!isForm) {
    for (const [name, blobs, isList] of files) {
      const urls = await Promise.all(blobs.map(dataUrl));
      texts[name] = isList ? urls : urls[0];
    }
    const json = { ...headers, "content-type": "application/json" };
    return { path, method: "POST", headers: json, body: JSON.stringify(texts) };
  }
  const form = new FormData();
  const { prompt, ...rest } = texts;
  form.set("prompt", String(prompt));
  form.set("extra_body", JSON.stringify(rest));
  for (const [name, blobs] of files) {
    for (const blob of blobs) form.append(name, blob, blob instanceof File ? blob.name : name);
  }
  return { path, method: "POST", headers, body: form };
}

/** Images of a video by their fields: the last of several is its last frame. */
export function frameFields<Image>(
  images: readonly Image[],
): { input_reference?: readonly Image[]; last_image?: readonly Image[] } {
  if (images.length === 0) return {};
  if (images.length === 1) return { input_reference: images };
  return { input_reference: images.slice(0, -1), last_image: images.slice(-1) };
}

function blobsOf(value: unknown): Blob[] {
  return [value].flat().filter((one) => one instanceof Blob);
}

async function dataUrl(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  // An argument list has an end.
  for (let at = 0; at < bytes.length; at += 2 ** 15) {
    text += String.fromCharCode(...bytes.subarray(at, at + 2 ** 15));
  }
  return `data:${file.type || "image/png"};base64,${btoa(text)}`;
}
