/** Requests for images and videos, as `fetch` takes them. */

/** Fields by the names of the HTTP API; blobs, and lists of them, are files. */
export type Fields = Readonly<Record<string, unknown>>;

/** Files that are sent in a form; others go into JSON where the request has none of these. */
const FORM_FIELDS = ["image", "mask", "reference", "video", "input_reference", "last_image"];

interface HttpRequest {
  readonly path: string;
  readonly method: "POST";
  readonly headers: Record<string, string>;
  readonly body: BodyInit;
}

export async function requestOf(kind: "image" | "video", given: Fields): Promise<HttpRequest> {
  const fields = kind === "video" ? videoFields(given) : given;
  const files = Object.entries(fields).flatMap(([name, value]) =>
    blobsOf(value).map((file) => [name, file] as const)
  );
  const texts = Object.fromEntries(
    Object.entries(fields).filter(([, value]) =>
      value !== undefined && blobsOf(value).length === 0
    ),
  );
  const isForm = files.some(([name]) => FORM_FIELDS.includes(name));
  const path = kind === "video" ? "/v1/videos" : `/v1/images/${isForm ? "edits" : "generations"}`;
  const headers = { prefer: "respond-async" };
  if (!isForm) {
    for (const [name, file] of files) texts[name] = await dataUrl(file);
    const json = { ...headers, "content-type": "application/json" };
    return { path, method: "POST", headers: json, body: JSON.stringify(texts) };
  }
  const form = new FormData();
  const { prompt, ...others } = texts;
  form.set("prompt", String(prompt));
  form.set("extra_body", JSON.stringify(others));
  for (const [name, file] of files) {
    form.append(name, file, file instanceof File ? file.name : name);
  }
  return { path, method: "POST", headers, body: form };
}

/** Images of a video are its first and its last frame. */
function videoFields({ image, ...fields }: Fields): Fields {
  const [first, last, ...others] = blobsOf(image);
  if (others.length > 0) {
    throw new RangeError(
      `Cannot use ${2 + others.length} images for a video: it takes two at most`,
    );
  }
  return { ...fields, ...(first && { input_reference: first }), ...(last && { last_image: last }) };
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
