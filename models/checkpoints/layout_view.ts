/** A file that names its tensors in another way, seen under our names. */
import type { Shape, StoredTensor, TensorSource } from "../../runtime/mod.ts";
import { type Layout, toOurs } from "../layouts.ts";

export interface Segment {
  readonly name: string;
  readonly start: number;
  readonly byteLength: number;
}

interface ViewedTensor extends StoredTensor {
  readonly segments: readonly Segment[];
}

const PARAMETERS = ["weight", "bias"] as const;

class LayoutView implements TensorSource {
  readonly #source: TensorSource;
  readonly #tensors: ReadonlyMap<string, ViewedTensor>;

  constructor(source: TensorSource, tensors: ReadonlyMap<string, ViewedTensor>) {
    this.#source = source;
    this.#tensors = tensors;
  }

  get path(): string {
    return this.#source.path;
  }

  get names(): Iterable<string> {
    return this.#tensors.keys();
  }

  find(name: string): StoredTensor | undefined {
    return this.#tensors.get(name);
  }

  read(name: string, start: number, target: Uint8Array): void {
    const tensor = this.#tensors.get(name);
    if (!tensor || !(start >= 0) || start + target.byteLength > tensor.byteLength) {
      throw new RangeError(
        `Cannot read ${target.byteLength} bytes at ${start} of tensor "${name}" in "${this.path}"`,
      );
    }
    let place = -start;
    for (const segment of tensor.segments) {
      const from = Math.max(0, place);
      const to = Math.min(target.byteLength, place + segment.byteLength);
      if (from < to) {
        const begin = segment.start + from - place;
        this.#source.read(segment.name, begin, target.subarray(from, to));
      }
      place += segment.byteLength;
    }
  }
}

/** The tensors of a component under our names. A table cuts whole rows, so that quantised blocks stay as they are. */
export function viewLayout(
  source: TensorSource,
  layout: Layout | undefined,
  prefix = "",
): TensorSource {
  const tensors = new Map<string, ViewedTensor>();
  for (const theirs of source.names) {
    if (!theirs.startsWith(prefix)) continue;
    const stored = source.find(theirs)!;
    const name = theirs.slice(prefix.length);
    for (const viewed of cut(source, layout, name, stored)) {
      if (tensors.has(viewed.name)) {
        throw new SyntaxError(
          `Cannot read "${source.path}": it has two tensors for "${viewed.name}", one of them "${theirs}"; fetch it again`,
        );
      }
      tensors.set(viewed.name, viewed);
    }
  }
  return new LayoutView(source, tensors);
}

export function viewSegments(
  source: TensorSource,
  tensors: ReadonlyMap<string, ViewedTensor>,
): TensorSource {
  return new LayoutView(source, tensors);
}

/** The tensors of ours that one of the file holds. */
function cut(
  source: TensorSource,
  layout: Layout | undefined,
  name: string,
  stored: StoredTensor,
): ViewedTensor[] {
  const ending = PARAMETERS.find((parameter) => name.endsWith(`.${parameter}`));
  const suffix = ending === undefined ? "" : `.${ending}`;
  const module = name.slice(0, name.length - suffix.length);
  const rows = stored.shape[0] ?? 1;
  const parts = layout && sharedOut(source, layout, module, rows);
  if (!parts) return [whole(name, stored)];
  // Shapes that a converter has changed do not always have whole rows of bytes.
  if (parts.length === 1) return [whole(parts[0]!.name + suffix, stored)];
  const byName = Map.groupBy(parts, (part) => part.name);
  return [...byName].map(([ours, ranges]) => {
    const count = ranges.reduce((sum, range) => sum + range.count, 0);
    const shape = stored.shape.length === 0 ? [] : [count, ...stored.shape.slice(1)];
    return view(ours + suffix, stored, shape, ranges);
  });
}

function sharedOut(source: TensorSource, layout: Layout, module: string, rows: number) {
  try {
    return toOurs(layout, module, rows);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new SyntaxError(
      `Cannot read "${source.path}" as ${layout.name}: ${cause.message}; fetch it again`,
      { cause },
    );
  }
}

function whole(name: string, stored: StoredTensor): ViewedTensor {
  const { byteLength } = stored;
  return { ...stored, name, segments: [{ name: stored.name, start: 0, byteLength }] };
}

function view(
  name: string,
  stored: StoredTensor,
  shape: Shape,
  ranges: readonly { readonly start: number; readonly count: number }[],
): ViewedTensor {
  const rowBytes = stored.byteLength / (stored.shape[0] ?? 1);
  const segments = ranges.map(({ start, count }) => ({
    name: stored.name,
    start: start * rowBytes,
    byteLength: count * rowBytes,
  }));
  const byteLength = segments.reduce((sum, segment) => sum + segment.byteLength, 0);
  const storedBytes = stored.storedBytes === undefined
    ? {}
    : { storedBytes: stored.storedBytes * byteLength / stored.byteLength };
  return { ...stored, ...storedBytes, name, shape, byteLength, segments };
}

/** Tensors of two files as one source. Where both have a name, the first file wins. */
export class JoinedSource implements TensorSource {
  readonly #sources: readonly [TensorSource, TensorSource];

  constructor(...sources: [TensorSource, TensorSource]) {
    this.#sources = sources;
  }

  get path(): string {
    return this.#sources[0].path;
  }

  get names(): Iterable<string> {
    return new Set(this.#sources.flatMap(({ names }) => [...names]));
  }

  find(name: string): StoredTensor | undefined {
    return this.#of(name)?.find(name);
  }

  read(name: string, start: number, target: Uint8Array): void {
    (this.#of(name) ?? this.#sources[0]).read(name, start, target);
  }

  #of(name: string): TensorSource | undefined {
    return this.#sources.find((source) => source.find(name));
  }
}
