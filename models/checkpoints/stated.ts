/** What a GGUF file states of the model in it, under llama.cpp's keys. */
import type { GgufValue, TensorSource } from "../../runtime/mod.ts";

/** Digits that a float of 32 bits holds for sure. */
const FLOAT_DIGITS = 7;

export class Stated {
  readonly #path: string;
  readonly #prefix: string;
  readonly #metadata: ReadonlyMap<string, GgufValue>;

  constructor(
    { path }: TensorSource,
    metadata: ReadonlyMap<string, GgufValue> = new Map(),
    prefix = String(metadata.get("general.architecture")),
  ) {
    this.#path = path;
    this.#metadata = metadata;
    this.#prefix = prefix;
  }

  /** A number, as it was before it became a float of 32 bits; nothing where none is stated. */
  number(key: string): number | undefined {
    const value = this.#metadata.get(`${this.#prefix}.${key}`);
    return typeof value === "number" ? Number(value.toPrecision(FLOAT_DIGITS)) : undefined;
  }

  check(counted: Readonly<Record<string, number>>): void {
    for (const [key, count] of Object.entries(counted)) {
      const said = this.number(key);
      if (said === undefined || said === count) continue;
      throw new SyntaxError(
        `Cannot read "${this.#path}": its ${this.#prefix}.${key} is ${said}, its tensors tell ${count}; ` +
          "the file is incomplete or damaged, fetch it again",
      );
    }
  }

  refuseScaledPositions(): void {
    const type = this.#metadata.get(`${this.#prefix}.rope.scaling.type`);
    // Without a type, a factor is that of linear scaling.
    const factor = this.number("rope.scaling.factor") ?? this.number("rope.scale_linear") ?? 1;
    const isPlain = type === undefined || type === "none" || type === "linear";
    if (isPlain && (type === "none" || factor === 0 || factor === 1)) return;
    throw new TypeError(
      `Cannot use "${this.#path}": it scales rotary positions (${this.#prefix}.rope.scaling is ${
        String(type ?? "linear").slice(0, 40)
      }, ${factor}), which is not supported; take a file without`,
    );
  }
}
