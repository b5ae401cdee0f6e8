import {
  concat,
  copyTo,
  type DeviceTensor,
  type Graph,
  type Shape,
  slice,
  type Tensor,
} from "../../../runtime/mod.ts";

/** Where a piece of a video stands: the `only` one, the `first` of several, a `next` one, or the `last`. */
export type PiecePlace = "only" | "first" | "next" | "last";

/** What layers remember of a video that comes in pieces: they give its frames as in one piece, each after those that it sees. */
export class FrameMemory {
  readonly #kept = new Map<string, DeviceTensor>();
  readonly #declare: (name: string, shape: Shape) => DeviceTensor;

  constructor(declare: (name: string, shape: Shape) => DeviceTensor) {
    this.#declare = declare;
  }

  /** What is remembered from the piece before; nothing of the first. */
  recall(place: PiecePlace, key: string, graph: Graph): Tensor | undefined {
    return place === "next" || place === "last" ? graph.use(this.#kept.get(key)!) : undefined;
  }

  /** Remembers the last frames of `x`, [1, frames, …], for the piece that follows. */
  remember(place: PiecePlace, key: string, count: number, x: Tensor): void {
    if (place === "only" || place === "last") return;
    const frames = x.dim(1);
    if (frames < count) {
      throw new RangeError(`Cannot remember ${count} frames of ${x}: it has ${frames}`);
    }
    const kept = this.#kept.get(key) ?? this.#declare(`kept ${key}`, x.shape.with(1, count));
    this.#kept.set(key, kept);
    copyTo(slice(x, 1, frames - count), kept);
  }

  /** `x` as many frames later, so that it stands beside what has waited for as many. */
  delayed(place: PiecePlace, key: string, count: number, x: Tensor): Tensor {
    if (place === "only" || count === 0) return x;
    const before = this.recall(place, key, x.graph);
    const all = before ? concat([before, x], 1) : x;
    this.remember(place, key, count, all);
    return place === "last" ? all : slice(all, 1, 0, all.dim(1) - count);
  }
}
