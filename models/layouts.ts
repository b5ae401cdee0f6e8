/** Other names for the modules of a model. The names of diffusers are canonical; every other layout is a table to them. */

/** A module or parameter of another layout, and where it lies in ours. `*` stands for a number, in order. */
export interface LayoutEntry {
  readonly theirs: string;
  /** Ours; several where theirs joins the output rows of several, in the order of the rows. */
  readonly ours: readonly string[];
  /** How many rows each of `ours` has, as shares; equal by default. */
  readonly shares?: readonly number[];
  /** Theirs has the two halves of its rows the other way round. */
  readonly swapsHalves?: boolean;
}

export function renamed(theirs: string, ours: string): LayoutEntry {
  return { theirs, ours: [ours] };
}

export function renamedIn(
  names: readonly (readonly [theirs: string, ours: string])[],
  theirs: string,
  ours: string,
): LayoutEntry[] {
  return names.map(([a, b]) => renamed(`${theirs}.${a}`, `${ours}.${b}`));
}

/** Norms of queries and keys as Black Forest Labs name them: their parameter is called `scale`. */
export function scaleNorms(
  theirs: string,
  ours: string,
  [query, key]: readonly [query: string, key: string],
): LayoutEntry[] {
  return [
    renamed(`${theirs}.query_norm.scale`, `${ours}.${query}.weight`),
    renamed(`${theirs}.key_norm.scale`, `${ours}.${key}.weight`),
  ];
}

export interface Layout {
  readonly name: string;
  /** What files may put before every name, longest first, such as `model.diffusion_model.`. */
  readonly prefixes: readonly string[];
  readonly entries: readonly LayoutEntry[];
}

interface LayoutPart {
  readonly name: string;
  readonly start: number;
  readonly count: number;
}

/** Where a module of another layout, without prefix and `.weight`, lies in ours, in the order of our rows. */
export function toOurs(layout: Layout, name: string, rows: number): LayoutPart[] | undefined {
  for (const entry of layout.entries) {
    const numbers = match(entry.theirs.split("."), name.split("."));
    if (!numbers) continue;
    const { ours, shares = ours.map(() => 1), swapsHalves = false } = entry;
    if (swapsHalves) {
      const [half, our] = [rows / 2, fill(ours[0]!, numbers)];
      checkWhole(half, name, rows);
      return [{ name: our, start: half, count: half }, { name: our, start: 0, count: half }];
    }
    const unit = rows / shares.reduce((sum, share) => sum + share, 0);
    checkWhole(unit, name, rows);
    let start = 0;
    return ours.map((our, i) => {
      const count = unit * shares[i]!;
      const part = { name: fill(our, numbers), start, count };
      start += count;
      return part;
    });
  }
  return undefined;
}

/** What another layout calls a model's modules, with ours in the order of its rows, where none is lacking. */
export function namesIn(layout: Layout, names: Iterable<string>): Map<string, string[]> {
  const known = new Set(names);
  const byLength = Map.groupBy([...known].map((name) => name.split(".")), ({ length }) => length);
  const theirs = new Map<string, string[]>();
  for (const entry of layout.entries) {
    const pattern = entry.ours[0]!.split(".");
    for (const name of byLength.get(pattern.length) ?? []) {
      const numbers = match(pattern, name);
      if (!numbers) continue;
      const key = fill(entry.theirs, numbers);
      const ours = entry.ours.map((each) => fill(each, numbers));
      if (!theirs.has(key) && ours.every((each) => known.has(each))) theirs.set(key, ours);
    }
  }
  return theirs;
}

function match(pattern: readonly string[], name: readonly string[]): string[] | undefined {
  if (name.length !== pattern.length) return undefined;
  const numbers: string[] = [];
  for (let i = name.length - 1; i >= 0; i--) {
    const [part, expected] = [name[i]!, pattern[i]!];
    if (expected === "*" && /^\d+$/.test(part)) numbers.unshift(part);
    else if (expected !== part) return undefined;
  }
  return numbers;
}

function fill(pattern: string, numbers: readonly string[]): string {
  let next = 0;
  return pattern.split(".").map((part) => (part === "*" ? numbers[next++]! : part)).join(".");
}

function checkWhole(unit: number, name: string, rows: number): void {
  if (Number.isInteger(unit)) return;
  throw new RangeError(`Cannot share out the ${rows} rows of "${name}": they do not divide evenly`);
}
