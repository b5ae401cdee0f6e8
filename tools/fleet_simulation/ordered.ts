/** Things in an order, of which only the first few are ever looked at. */

/** A heap whose smallest element comes out first. */
export class Heap<T> {
  readonly #items: T[] = [];
  readonly #isBefore: (a: T, b: T) => boolean;

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  /** The first element, or undefined. */
  get first(): T | undefined {
    return this.#items[0];
  }

  /** Adds an element. */
  push(item: T): void {
    const items = this.#items;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(item, items[parent]!)) break;
      items[at] = items[parent]!;
      at = parent;
    }
    items[at] = item;
  }

  /** Takes out the first element, or gives undefined. */
  pop(): T | undefined {
    const items = this.#items;
    const first = items[0];
    const last = items.pop();
    if (items.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      const right = child + 1;
      if (right < items.length && this.#isBefore(items[right]!, items[child]!)) child = right;
      if (!this.#isBefore(items[child]!, last!)) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = last!;
    return first;
  }
}

/** What an {@link Ordered} holds. */
interface Removable {
  /** Set from outside; the element is dropped when it comes to the front. */
  isGone: boolean;
}

/** An ordered list with a sorted front, and a heap behind it. */
export class Ordered<T extends Removable> {
  #front: T[] = [];
  readonly #rest: Heap<T>;
  readonly #isBefore: (a: T, b: T) => boolean;
  readonly #count: number;

  /**
   * @param count of the elements that {@link first} gives at most
   */
  constructor(count: number, isBefore: (a: T, b: T) => boolean) {
    this.#count = count;
    this.#isBefore = isBefore;
    this.#rest = new Heap(isBefore);
  }

  /** Adds an element. */
  add(item: T): void {
    const front = this.#front;
    const last = front.at(-1);
    const isBehind = last === undefined || !this.#isBefore(item, last);
    if (isBehind && (this.#rest.first !== undefined || front.length >= this.#count)) {
      this.#rest.push(item);
      return;
    }
    let at = front.length;
    while (at > 0 && this.#isBefore(item, front[at - 1]!)) at--;
    front.splice(at, 0, item);
    if (front.length > 2 * this.#count) this.#rest.push(front.pop()!);
  }

  /** The first elements, in their order; to be read before the next change. */
  first(): readonly T[] {
    const front = this.#front;
    if (front.some(({ isGone }) => isGone)) this.#front = front.filter(({ isGone }) => !isGone);
    while (this.#front.length < this.#count) {
      const next = this.#rest.pop();
      if (next === undefined) break;
      if (!next.isGone) this.#front.push(next);
    }
    return this.#front;
  }
}
