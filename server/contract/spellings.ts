/** Names under which clients send inputs, beside those of the documents. */

/** Other names by the name that the documents have. */
type Spellings = Readonly<Record<string, readonly string[]>>;

/** Inputs of edits. */
export const EDIT_SPELLINGS: Spellings = {
  image: ["images", "input_image", "input_images", "init_image"],
  url: ["urls", "image_url", "image_urls"],
  mask: ["mask_image", "mask_url"],
  control: ["control_image"],
};

/** Inputs of videos. */
export const VIDEO_SPELLINGS: Spellings = {
  input_reference: [
    ...["image", "images", "input_image", "image_reference", "image_url"],
    ...["first_frame", "first_frame_image", "init_image"],
  ],
  last_image: ["last_frame", "last_frame_image", "end_image"],
  mask: ["mask_image", "mask_video"],
  reference: ["references", "reference_image", "reference_images"],
  video: [],
  video_reference: [],
  video_url: [],
  reference_url: [],
};

/**
 * The documents' name of an input: `images`, `image[]` and `image[0]` are `image`. Other names stay as they are.
 */
export function inputName(name: string, spellings: Spellings): string {
  const base = name.replace(/\[\d{0,9}\]$/, "");
  if (Object.hasOwn(spellings, base)) return base;
  return Object.keys(spellings).find((known) => spellings[known]!.includes(base)) ?? name;
}

/** A body with the documents' names; values that come under several names of one input are a list. */
export function withInputNames<Value>(
  body: Readonly<Record<string, Value>>,
  spellings: Spellings,
): Record<string, Value> {
  const named = new Map<string, Value[]>();
  for (const [name, value] of Object.entries(body)) {
    const known = inputName(name, spellings);
    // What says nothing adds nothing to a list.
    const isEmpty = value === null || value === undefined || value === "";
    if (!named.has(known)) named.set(known, [value]);
    else if (!isEmpty) named.get(known)!.push(value);
  }
  return Object.fromEntries(
    [...named].map((
      [name, values],
    ) => [name, (values.length === 1 ? values[0]! : values.flat()) as Value]),
  );
}

/**
 * Fields whose files nobody reads, each once.
 *
 * @returns a value for each, and that it changes nothing, for `findIgnored()`
 */
export function unreadFiles(
  files: readonly { readonly field: string }[],
  spellings: Spellings,
): { readonly fields: Record<string, string>; readonly idle: Record<string, true> } {
  const names = new Set(
    files.map(({ field }) => field).filter((name) => !Object.hasOwn(spellings, name)),
  );
  const record = <T>(value: T) => Object.fromEntries([...names].map((name) => [name, value]));
  return { fields: record("a file"), idle: record(true as const) };
}
