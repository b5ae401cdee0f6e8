/** Doing what may be refused, and telling why. */

import { Refusal } from "./api.ts";
import { refreshSoon } from "./jobs.ts";
import { connect, noteRefusal } from "./session.ts";
import { tell, view } from "./view.ts";

/** Does something; what goes wrong is told in a sentence. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  tell("");
  try {
    await work();
    return true;
  } catch (error) {
    const notice = error instanceof Error ? error.message : String(error);
    if (!noteRefusal(error)) tell(notice);
    // What the server was missed for is no news once it is there again.
    if (error instanceof Refusal && error.status === 0) {
      void connect().then(() => view.state.notice === notice && tell(""));
    }
    refreshSoon();
    return false;
  }
}
