import {
  causalConv3d,
  type CausalConv3dOptions,
  concat,
  copyTo,
  DeviceTensor,
  type DType,
  elementwise,
  type Shape,
  slice,
  type Tensor,
} from "../../../runtime/mod.ts";

/** Where a chunk stands in the stream: the `only` one (an image), the `first` of several, or a `next` one. */
export type ChunkPlace = "only" | "first" | "next";

/** Which latent frame, u32 [1], of how many a chunk is. */
export interface ChunkFrame {
  readonly frame: Tensor;
  readonly frames: number;
}

/** The last input frames of every causal convolution, so that chunks give what one piece would; zero before a video. */
export class FrameHistory {
  readonly #caches = new Map<string, DeviceTensor>();
  readonly #declare: (name: string, shape: Shape, dtype: DType) => DeviceTensor;

  constructor(
    declare: (name: string, shape: Shape, dtype: DType) => DeviceTensor = (name, shape, dtype) =>
      new DeviceTensor(name, shape, dtype),
  ) {
    this.#declare = declare;
  }

  /** All caches; the caller allocates them and clears them before each video. */
  get tensors(): IterableIterator<DeviceTensor> {
    return this.#caches.values();
  }

  /** A causal convolution that remembers the frames it looks back on: 2 for kernels of 3, 1 for a strided one. */
  convolve(
    place: ChunkPlace,
    key: string,
    frames: 1 | 2,
    x: Tensor,
    weight: Tensor,
    options: Omit<CausalConv3dOptions, "cache">,
  ): Tensor {
    if (place === "only") return causalConv3d(x, weight, options);
    if (place === "first") {
      const result = causalConv3d(x, weight, options);
      const { kernel, factors = [] } = x.graph.dispatches.at(-1)!;
      const { schedule, features } = x.graph.target;
      // A kernel that rounds its factors to f16 gives the same with a history of f16, and on GPUs others take what may be
      // rounded as f16 from wherever it was stored.
      const isStored = schedule === "gpu" && features.f16 && factors.includes("x");
      const isHalf = (kernel.usesF16 === true || isStored) && x.dim(-1) % 4 === 0;
      this.#keep(this.#cache(key, frames, x, isHalf ? "f16" : "f32"), frames, x);
      return result;
    }
    const cache = this.#cache(key, frames, x);
    const result = causalConv3d(x, weight, { ...options, cache: x.graph.use(cache) });
    this.#keep(cache, frames, x);
    return result;
  }

  /** Only remembers the frames of `x`, for a convolution that the first chunk skips. */
  remember(place: ChunkPlace, key: string, frames: 1 | 2, x: Tensor): void {
    if (place !== "only") this.#keep(this.#cache(key, frames, x), frames, x);
  }

  /** Only makes room for what later chunks will remember, for a convolution that sees nothing of the first. */
  reserve(place: ChunkPlace, key: string, frames: 1 | 2, x: Tensor): void {
    if (place !== "only") this.#cache(key, frames, x);
  }

  /** Further memory of what came before, cleared like the caches. */
  tensor(key: string, shape: Shape): DeviceTensor {
    const known = this.#caches.get(key);
    if (known) return known;
    const made = this.#declare(`history ${key}`, shape, "f32");
    this.#caches.set(key, made);
    return made;
  }

  #cache(key: string, frames: number, x: Tensor, dtype: DType = "f32"): DeviceTensor {
    let cache = this.#caches.get(key);
    if (!cache) {
      cache = this.#declare(`history ${key}`, [1, frames, ...x.shape.slice(2)], dtype);
      this.#caches.set(key, cache);
    }
    return cache;
  }

  #keep(cache: DeviceTensor, frames: number, x: Tensor): void {
    const count = x.dim(1);
    const last = count >= frames
      ? slice(x, 1, count - frames, count)
      : concat([slice(x.graph.use(cache), 1, count, frames), x], 1);
    copyTo(
      cache.dtype === "f16" ? elementwise("1.0 * x", { x: last }, { dtype: "f16" }) : last,
      cache,
    );
  }
}
