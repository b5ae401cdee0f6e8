/** Two files that together hold a component. */
import type { StoredTensor, TensorSource } from "../../runtime/mod.ts";

/** Tensors of two files as one source. Where both have a name, the first file wins. */
export class JoinedSource implements TensorSource {
  readonly #sources: readonly [TensorSource, TensorSource];

  /** Both stay open as long as this is in use. */
  constructor(...sources: [TensorSource, TensorSource]) {
    this.#sources = sources;
  }

  get path(): string {
    return this.#sources[0].path;
  }

  get names(): Iterable<string> {
    return new Set(this.#sources.flatMap(({ names }) => [...names]));
  }

  /** See {@linkcode TensorSource.find}. */
  find(name: string): StoredTensor | undefined {
    return this.#of(name)?.find(name);
  }

  /** See {@linkcode TensorSource.read}. */
  read(name: string, start: number, target: Uint8Array): void {
    (this.#of(name) ?? this.#sources[0]).read(name, start, target);
  }

  #of(name: string): TensorSource | undefined {
    return this.#sources.find((source) => source.find(name));
  }
}
