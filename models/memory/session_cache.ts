/** Programs of a model that are kept between requests. */
import { LRUCache } from "lru-cache";
import type { SessionRunner } from "./session_runner.ts";

const MAX_SESSIONS = 4;

export interface PlannedSession {
  readonly runner: SessionRunner;
}

/** Sessions for requests of one kind, by LoRAs; a request of another kind takes the place of them all. */
export class SessionCache<Session extends PlannedSession> {
  readonly #sessions = new LRUCache<string, Session>({
    max: MAX_SESSIONS,
    dispose: ({ runner }) => runner.destroy(),
  });
  #kind = "";

  dropOthers(kind: string): boolean {
    const had = kind !== this.#kind && this.clear();
    this.#kind = kind;
    return had;
  }

  find(loras: string): Session | undefined {
    return this.#sessions.get(loras);
  }

  add(loras: string, session: Session): void {
    this.#sessions.set(loras, session);
  }

  drop(loras: string): void {
    this.#sessions.delete(loras);
  }

  clear(): boolean {
    const had = this.#sessions.size > 0;
    this.#sessions.clear();
    return had;
  }
}
