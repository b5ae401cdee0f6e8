/**
 * Signatures of webhooks, so that whoever gets one knows that it is from this server.
 *
 * Source: Standard Webhooks 1.0, symmetric signatures.
 */

import { createHmac } from "node:crypto";

/** How secrets are written. */
const PREFIX = "whsec_";
/** Fewest and most bytes of a secret, as the standard has it. */
const LEAST = 24;
const MOST = 64;

/**
 * Reads a secret.
 *
 * @param text `whsec_` with 24 to 64 bytes in base64
 * @returns the bytes
 * @throws {TypeError} for anything else; the message does not repeat it
 */
export function readSecret(text: string): Uint8Array<ArrayBuffer> {
  let bytes: Uint8Array<ArrayBuffer> | undefined;
  try {
    if (text.startsWith(PREFIX)) bytes = Uint8Array.fromBase64(text.slice(PREFIX.length));
  } catch {
    // It is no base64.
  }
  if (bytes && bytes.length >= LEAST && bytes.length <= MOST) return bytes;
  throw new TypeError(
    `Cannot use the webhook secret: it must be ${PREFIX} with ${LEAST} to ${MOST} bytes in base64, ` +
      `such as ${PREFIX}$(openssl rand -base64 32)`,
  );
}

/**
 * The header `webhook-signature` of a message.
 *
 * @param secret shared with the receiver
 * @param message its id, the time in Unix seconds, and the body as it is sent
 * @returns version and signature
 */
export function signature(
  secret: Uint8Array,
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): string {
  const signed = createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64");
  return `v1,${signed}`;
}
