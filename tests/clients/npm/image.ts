/** What the programs of this folder say of an image that they got. */

import { strict as assert } from "node:assert";
import { Buffer } from "node:buffer";

/** Width and height of a PNG, which it must be. */
export function pngSize(base64: string): [number, number] {
  const bytes = Buffer.from(base64, "base64");
  assert.equal(bytes.subarray(1, 4).toString("latin1"), "PNG");
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
}

/** The arguments of a program: the server's address, and the path of an image. */
export const [url, imagePath] = Deno.args as [string, string];
