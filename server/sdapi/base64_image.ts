/** Files in the bodies of requests. */
import { nextTurn } from "../http/next_turn.ts";

/**
 * Decodes a file in base64, with or without `data:image/png;base64,` before it.
 *
 * @returns the file; nothing when it is no base64
 */
export async function decodeBase64(text: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  await nextTurn();
  try {
    return Uint8Array.fromBase64(text.replace(/^data:[^,]{0,200};base64,/i, ""));
  } catch {
    return undefined;
  }
}
