/**
 * Doing what may be refused, and telling why.
 *
 * @module
 */

import { refreshSoon } from "./jobs.ts";
import { noteRefusal } from "./session.ts";
import { tell } from "./view.ts";

/**
 * Does something; what goes wrong is told in a sentence.
 *
 * @returns whether it went well
 */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  tell("");
  try {
    await work();
    return true;
  } catch (error) {
    if (!noteRefusal(error)) tell(error instanceof Error ? error.message : String(error));
    refreshSoon();
    return false;
  }
}
