/** State that views follow. */

import { useEffect, useState } from "preact/hooks";

/** A value that tells who follows it of its changes. */
export class Store<T extends object> {
  #state: T;
  readonly #listeners = new Set<() => void>();

  constructor(state: T) {
    this.#state = state;
  }

  get state(): T {
    return this.#state;
  }

  set(change: Partial<T> | ((state: T) => Partial<T>)): void {
    const part = typeof change === "function" ? change(this.#state) : change;
    const isNew = Object.entries(part).some(([name, value]) =>
      !Object.is(value, this.#state[name as keyof T])
    );
    if (!isNew) return;
    this.#state = { ...this.#state, ...part };
    for (const listener of [...this.#listeners]) listener();
  }

  /** Calls a listener after each change, until the result is called. */
  follow(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** A part of a store's state; the view is drawn again when it is another. */
export function useStore<T extends object, U>(store: Store<T>, choose: (state: T) => U): U {
  const [, redraw] = useState({});
  const chosen = choose(store.state);
  useEffect(() => {
    let last = choose(store.state);
    if (!Object.is(last, chosen)) redraw({});
    return store.follow(() => {
      const next = choose(store.state);
      if (Object.is(next, last)) return;
      last = next;
      redraw({});
    });
  }, [store]);
  return chosen;
}

const PREFIX = "denoise.";

/** Small values by name. Where the browser keeps nothing, everything is as on the first visit. */
export const memory = {
  read<T>(name: string, otherwise: T): T {
    try {
      const text = localStorage.getItem(PREFIX + name);
      return text === null ? otherwise : JSON.parse(text);
    } catch {
      return otherwise;
    }
  },

  write(name: string, value: unknown): void {
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      // Nothing is kept then.
    }
  },
};
