/** Names of fields: other spellings of inputs, envelopes, and fields without effect, which are named in the answer. */

import { closest } from "fastest-levenshtein";
import { readJsonText } from "./json.ts";
import { badRequest } from "./errors.ts";

/** How many names the header holds, and how long it may become. */
const MAX_NAMES = 32;
const MAX_HEADER_LENGTH = 1024;

/** Fields by the other spelling that the specification has for them. */
const SPELLINGS: ReadonlyMap<string, string> = new Map([
  ["output-quality", "output_quality"],
  ["output-compression", "output_compression"],
]);

/** What the record of a job tells of a request's inputs; where it had none, its request is whole without them. */
const TOLD_INPUTS = [
  ...["input_images", "input_mask", "input_control", "input_references", "input_video"],
  "input_audio",
] as const;

/** Nested objects whose members count as fields of the body. */
const ENVELOPES = ["extra_body", "extra_json", "extra_params"] as const;

/** Lifts the members of `extra_body`, `extra_json` and `extra_params` into the body, whose own fields win, under the schemas' names. */
export function flattenExtras(
  body: Readonly<Record<string, unknown>>,
  inputs: Parameters<typeof withInputNames>[1] = {},
): Record<string, unknown> {
  const flat = new Map(Object.entries(body));
  for (const name of ENVELOPES) flat.delete(name);
  for (const name of ENVELOPES) {
    if (!Object.hasOwn(body, name)) continue;
    for (const [key, value] of Object.entries(readEnvelope(name, body[name]))) {
      if (!flat.has(key)) flat.set(key, value);
    }
  }
  for (const [spelling, name] of SPELLINGS) {
    if (!flat.has(spelling)) continue;
    if (!flat.has(name)) flat.set(name, flat.get(spelling));
    flat.delete(spelling);
  }
  for (const name of TOLD_INPUTS) {
    const told = flat.get(name);
    if (told === 0 || told === false) flat.delete(name);
  }
  if (flat.has("lora")) liftLora(flat);
  const loras = flat.get("loras");
  if (Array.isArray(loras)) {
    flat.set("loras", loras.map((lora) => typeof lora === "string" ? { path: lora } : lora));
  }
  // As a key of an object it would become its prototype, and lend it fields that nobody checked.
  flat.delete("__proto__");
  return withInputNames(Object.fromEntries(flat), inputs);
}

/** vLLM-Omni names the one LoRA of a request `lora`, with `name`, `path` and `scale`. */
function liftLora(flat: Map<string, unknown>): void {
  const value = flat.get("lora");
  flat.delete("lora");
  if (value === null || value === undefined || value === "") return;
  if (flat.has("loras")) {
    throw badRequest("Cannot use lora: loras is there too; send one of them", "lora");
  }
  if (typeof value === "string" && !value.trim().startsWith("{")) {
    flat.set("loras", [value]);
    return;
  }
  const { name, scale, int_id: _, local_path: local, ...rest } = readEnvelope(
    "lora",
    value,
  ) as Record<
    string,
    unknown
  >;
  const path = rest["path"] ?? local;
  flat.set("loras", [{
    ...rest,
    ...(name === undefined ? {} : { nickname: name }),
    ...(path === undefined ? {} : { path }),
    ...(scale === undefined ? {} : { strength: scale }),
  }]);
}

function readEnvelope(name: string, value: unknown): object {
  if (value === null) return {};
  let object: unknown = value;
  if (typeof value === "string") {
    object = readJsonText(value, name);
    if (object === undefined) throw badRequest(`${name} is not valid JSON`, name);
  }
  if (typeof object !== "object" || object === null || Array.isArray(object)) {
    throw badRequest(`Cannot use ${name}: it must be a JSON object`, name);
  }
  return object;
}

/** What {@link ignoredFields} needs to know of an endpoint. */
export interface FieldTable {
  /** Every field the endpoint knows. */
  readonly known: readonly string[];
  /** Known fields that this service does not act on, with the value at which they ask for nothing. */
  readonly withoutEffect: ReadonlyMap<string, unknown>;
}

/** The fields of a body that change nothing; those that are null are as good as absent. */
export function ignoredFields(
  body: Readonly<Record<string, unknown>>,
  table: FieldTable,
): string[] {
  return Object.entries(body).filter(([name, value]) => {
    if (value === null || value === undefined) return false;
    if (!table.known.includes(name)) return true;
    return table.withoutEffect.has(name) && value !== table.withoutEffect.get(name);
  }).map(([name]) => name);
}

/** @throws {ApiError} 400, always: for servers that are strict about fields without effect */
export function refuseField(name: string, table: FieldTable): never {
  const shown = name.length > 60 ? `${name.slice(0, 60)}…` : name;
  if (table.known.includes(name)) {
    throw badRequest(`Cannot use field '${shown}': it has no effect here`, name, "unused_field");
  }
  const nearest = nearestName(name, table.known);
  throw badRequest(
    `Cannot use field '${shown}': it is not known; the nearest known field is '${nearest}'`,
    shown,
    "unknown_field",
  );
}

/** Names joined with commas, percent-encoded where a header cannot hold them, at most 1 KiB. */
export function headerOfNames(names: readonly string[]): string {
  let header = "";
  for (const name of names.slice(0, MAX_NAMES)) {
    const safe = /^[\w.\-[\]]{1,100}$/.test(name)
      ? name
      : encodeURIComponent(name.slice(0, 60).toWellFormed());
    const longer = header ? `${header}, ${safe}` : safe;
    if (longer.length > MAX_HEADER_LENGTH) break;
    header = longer;
  }
  return header;
}

/** The known name that takes the fewest edits to reach. */
export function nearestName(name: string, known: readonly string[]): string {
  return closest(name.slice(0, 64).toLowerCase(), known);
}

/** Other names by the name that the documents have. */
type Spellings = Readonly<Record<string, readonly string[]>>;

const REFERENCE_SPELLINGS = [
  "references",
  "reference_image",
  "reference_images",
  "ip_adapter_image",
];

const REFERENCE_MASK_SPELLINGS = ["reference_masks", "ip_adapter_mask", "ip_adapter_masks"];

export const EDIT_SPELLINGS: Spellings = {
  image: ["images", "input_image", "input_images", "init_image"],
  url: ["urls", "image_url", "image_urls"],
  mask: ["mask_image", "mask_url"],
  control: ["control_image"],
  reference: REFERENCE_SPELLINGS,
  reference_mask: REFERENCE_MASK_SPELLINGS,
};

export const VIDEO_SPELLINGS: Spellings = {
  input_reference: [
    ...["image", "images", "input_image", "image_reference", "image_url"],
    ...["first_frame", "first_frame_image", "init_image"],
  ],
  last_image: ["last_frame", "last_frame_image", "end_image"],
  mask: ["mask_image", "mask_video"],
  audio: ["audio_url", "audio_reference", "audio_file"],
  reference: REFERENCE_SPELLINGS,
  video: [],
  video_reference: [],
  video_url: [],
  reference_url: [],
};

/** The documents' name of an input: `images`, `image[]` and `image[0]` are `image`. Other names stay as they are. */
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

/** Fields whose files nobody reads, each once, as `findIgnored()` takes them. */
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
