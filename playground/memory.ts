/** What the browser keeps from one visit to the next. */

const PREFIX = "denoise.";

/** Small values by name. Where the browser keeps nothing, everything is as on the first visit. */
export const memory = {
  /** The value that was kept, else another. */
  read<T>(name: string, otherwise: T): T {
    try {
      const text = localStorage.getItem(PREFIX + name);
      return text === null ? otherwise : JSON.parse(text);
    } catch {
      return otherwise;
    }
  },

  /** Keeps a value. */
  write(name: string, value: unknown): void {
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      // Nothing is kept then.
    }
  },
};
