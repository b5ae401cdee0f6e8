/** A prefix tree of strings. Edges lie in one open-addressing hash table: 256 000 pieces are built in half a second. */

const NONE = -1;

/** Maps strings to numbers ≥ 0 and walks them one UTF-16 code unit at a time. */
export class PieceTrie {
  #parents: Int32Array;
  #units: Uint16Array;
  #children: Int32Array;
  #mask: number;
  #edges = 0;
  #values: number[] = [NONE];

  /** Builds the tree; of two equal strings the later counts. */
  constructor(entries: Iterable<readonly [piece: string, value: number]>) {
    const slots = 1 << 10;
    this.#parents = new Int32Array(slots).fill(NONE);
    this.#units = new Uint16Array(slots);
    this.#children = new Int32Array(slots);
    this.#mask = slots - 1;
    for (const [piece, value] of entries) this.#insert(piece, value);
  }

  get root(): number {
    return 0;
  }

  /** The node one code unit further, or −1 if no piece goes on so. */
  child(node: number, unit: number): number {
    let slot = this.#slot(node, unit);
    while (this.#parents[slot] !== NONE) {
      if (this.#parents[slot] === node && this.#units[slot] === unit) return this.#children[slot]!;
      slot = (slot + 1) & this.#mask;
    }
    return NONE;
  }

  /** The number of the piece that ends at a node, or −1 if none does. */
  value(node: number): number {
    return this.#values[node]!;
  }

  /** The number of a whole string, or −1 if it is not a piece. */
  get(piece: string): number {
    let node = this.root;
    for (let i = 0; i < piece.length && node !== NONE; i++) {
      node = this.child(node, piece.charCodeAt(i));
    }
    return node === NONE ? NONE : this.value(node);
  }

  longestAt(text: string, start: number): { value: number; end: number } | undefined {
    let found: { value: number; end: number } | undefined;
    let node = this.root;
    for (let i = start; i < text.length; i++) {
      node = this.child(node, text.charCodeAt(i));
      if (node === NONE) break;
      const value = this.value(node);
      if (value !== NONE) found = { value, end: i + 1 };
    }
    return found;
  }

  #slot(node: number, unit: number): number {
    const hash = Math.imul(node ^ Math.imul(unit, 0x9e3779b1), 0x85ebca6b);
    return (hash ^ (hash >>> 15)) & this.#mask;
  }

  #insert(piece: string, value: number): void {
    let node = this.root;
    for (let i = 0; i < piece.length; i++) {
      const unit = piece.charCodeAt(i);
      let next = this.child(node, unit);
      if (next === NONE) {
        next = this.#values.length;
        this.#values.push(NONE);
        this.#addEdge(node, unit, next);
      }
      node = next;
    }
    this.#values[node] = value;
  }

  #addEdge(node: number, unit: number, child: number): void {
    if (++this.#edges * 2 > this.#mask) this.#grow();
    this.#place(node, unit, child);
  }

  #place(node: number, unit: number, child: number): void {
    let slot = this.#slot(node, unit);
    while (this.#parents[slot] !== NONE) slot = (slot + 1) & this.#mask;
    this.#parents[slot] = node;
    this.#units[slot] = unit;
    this.#children[slot] = child;
  }

  #grow(): void {
    const [parents, units, children] = [this.#parents, this.#units, this.#children];
    const slots = parents.length * 2;
    this.#parents = new Int32Array(slots).fill(NONE);
    this.#units = new Uint16Array(slots);
    this.#children = new Int32Array(slots);
    this.#mask = slots - 1;
    for (let i = 0; i < parents.length; i++) {
      if (parents[i] !== NONE) this.#place(parents[i]!, units[i]!, children[i]!);
    }
  }
}
