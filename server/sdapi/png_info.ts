/**
 * `POST /sdapi/v1/png-info`: what an image's file says of how it was made.
 *
 * @module
 */

import { z } from "zod";
import { readImageText } from "../../media/encode.ts";
import { ImageError } from "../../media/image.ts";
import { badRequest } from "../contract/errors.ts";
import { validate } from "../contract/validate.ts";

const schema = z.looseObject({ image: z.string() });

/** Where WebUI's text stands in PNG files, and in other ones. */
const KEYS = ["parameters", "UserComment"] as const;

/**
 * Reads the text of an image.
 *
 * @param body with the file in base64 as `image`
 * @returns a JSON value
 * @throws {ApiError} 400 for what is no image
 */
export function pngInfo(body: unknown): Record<string, unknown> {
  const { image } = validate(schema, body);
  const text = readText(image);
  const key = KEYS.find((name) => text[name] !== undefined);
  const info = key === undefined ? "" : text[key]!;
  const items = Object.fromEntries(Object.entries(text).filter(([name]) => name !== key));
  return { info, items, parameters: parametersOf(info) };
}

function readText(base64: string): Record<string, string> {
  let bytes: Uint8Array;
  try {
    bytes = Uint8Array.fromBase64(base64.replace(/^data:[^,]{0,200};base64,/i, ""));
  } catch {
    throw badRequest("Invalid encoded image", "image");
  }
  try {
    return readImageText(bytes);
  } catch (error) {
    if (error instanceof ImageError) throw badRequest(error.message, "image");
    throw error;
  }
}

/** The parts of WebUI's text. */
function parametersOf(info: string): Record<string, string> {
  if (info === "") return {};
  const lines = info.trim().split("\n");
  const hasSettings = /^Steps: /.test(lines.at(-1)!);
  const settings = hasSettings ? lines.pop()! : "";
  const at = lines.findIndex((line) => line.startsWith("Negative prompt:"));
  const split = at < 0 ? lines.length : at;
  const pairs = settings.matchAll(/\s*(\w[\w -]*?):\s*("(?:\\.|[^"\\])*"|[^,]*)(?:,|$)/g);
  return {
    "Prompt": lines.slice(0, split).join("\n"),
    "Negative prompt": lines.slice(split).join("\n").replace(/^Negative prompt:\s*/, ""),
    ...Object.fromEntries([...pairs].map(([, name, value]) => [name, unquoted(value!)])),
  };
}

function unquoted(text: string): string {
  if (!text.startsWith('"')) return text.trim();
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}
