/** A list in an order. */
export class Ordered<T> {
  /** The last element first: to take out the first one costs least. */
  readonly #items: T[] = [];
  readonly #isBefore: (a: T, b: T) => boolean;

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): T | undefined {
    return this.#items.at(-1);
  }

  /** The first elements, in their order. */
  front(count: number): T[] {
    return this.#items.slice(-count).reverse();
  }

  add(item: T): void {
    this.#items.splice(this.#placeOf(item), 0, item);
  }

  shift(): T | undefined {
    return this.#items.pop();
  }

  /** Takes out an element that is there, and that the order tells from all others. */
  remove(item: T): void {
    this.#items.splice(this.#placeOf(item), 1);
  }

  /** How many elements come after one. */
  #placeOf(item: T): number {
    let [from, to] = [0, this.#items.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#isBefore(item, this.#items[middle]!)) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
