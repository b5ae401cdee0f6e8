/** Names in kernel files that stand for values, and how they are put into WGSL. */

/** What a name stands for: a u32, a bool, a word or piece of WGSL, or a list of words. */
export type Value = number | boolean | string | readonly string[];

/** Values of bound names. */
export type Scope = Pick<ReadonlyMap<string, Value>, "get" | "has">;

/** Names bound in a block, and those bound around it. A loop makes thousands of blocks, so none copies what is around it. */
export class BlockScope implements Scope {
  readonly #own = new Map<string, Value>();
  readonly #outer: BlockScope | undefined;

  /** @param outer of the block around it; left out for a whole file */
  constructor(outer?: BlockScope) {
    this.#outer = outer;
  }

  get(name: string): Value | undefined {
    return this.#own.get(name) ?? this.#outer?.get(name);
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  /** Binds a name until the block ends. */
  set(name: string, value: Value): this {
    this.#own.set(name, value);
    return this;
  }

  /** What was bound in this block. */
  own(): ReadonlyMap<string, Value> {
    return this.#own;
  }
}

/** WGSL that stays as it is, or an identifier in which names may stand, whole and cut at its underscores. */
export type Piece = string | { readonly whole: string; readonly parts: readonly string[] };

/** Whether a name can be bound: capitals, digits and `_`. All others are words that stand for themselves. */
export function isBindable(name: string): boolean {
  return /^[A-Z][A-Z0-9_]*$/.test(name);
}

/** A value, for messages. */
export function describe(value: Value): string {
  return typeof value === "object" ? `the list [${value.join(" ")}]` : `${value}`;
}

/** Cuts WGSL at the identifiers in which a name may stand: those in capitals, and those with a part in capitals. */
export function piecesOf(text: string): readonly Piece[] {
  const pieces: Piece[] = [];
  let start = 0;
  for (const { 0: word, index } of text.matchAll(/(?<![\w.])\d[\w.]*|[A-Za-z_]\w*/g)) {
    if (/^\d/.test(word)) continue;
    const parts = word.split("_");
    if (!parts.some(isBindable)) continue;
    pieces.push(text.slice(start, index), { whole: word, parts });
    start = index + word.length;
  }
  pieces.push(text.slice(start));
  return pieces;
}

/**
 * Puts values in the place of names: `ROWS` becomes `8u`, `sum_ROWS` becomes `sum_8`. An identifier in capitals is one name,
 * unless it is none and all its parts are, or are numbers.
 */
export function paste(pieces: readonly Piece[], scope: Scope): string {
  return pieces.map((piece) => {
    if (typeof piece === "string") return piece;
    const { whole, parts } = piece;
    const value = scope.get(whole);
    if (value !== undefined) return literal(whole, value);
    if (!/[a-z]/.test(whole) && !parts.every((part) => scope.has(part) || !isBindable(part))) {
      return whole;
    }
    return parts.map((part) => {
      const value = scope.get(part);
      return typeof value === "number" || typeof value === "string" ? value : part;
    }).join("_");
  }).join("");
}

function literal(name: string, value: Value): string {
  if (typeof value === "number") return `${value}u`;
  if (typeof value !== "object") return `${value}`;
  throw new SyntaxError(`${name} is ${describe(value)}, which cannot stand in WGSL`);
}
