/** The address of a webhook, as a request gives it. */

import { badRequest } from "../contract/errors.ts";
import { checkLiteralAddress, parseRemoteUrl, RemoteError } from "../network/remote.ts";

/** @throws {ApiError} 400 for an address that may not be told anything */
export function readWebhookUrl(text: string, allowPrivate: boolean): string {
  try {
    const url = parseRemoteUrl(text);
    if (!allowPrivate) checkLiteralAddress(url);
    return url.href;
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error;
    throw badRequest(`Cannot use webhook_url: ${error.message}`, "webhook_url");
  }
}
