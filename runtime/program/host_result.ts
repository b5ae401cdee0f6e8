/** Results that leave the device where it has no room for them: programs read them from host memory, like weights. */
import { DeviceTensor } from "../device/device_tensor.ts";
import { exchange } from "../ops/exchange/mod.ts";
import { elementwise } from "../ops/elementwise/mod.ts";
import { SaturationError } from "../graph/saturation.ts";
import { elementCount, formatShape, type Shape } from "../shape.ts";
import type { Meeting, Team } from "../team/team.ts";
import type { Tensor } from "../graph/tensor.ts";

/**
 * A tensor that a program reads back as soon as it has made it. Once that program is traced, others take what was read as
 * {@linkcode HostResult.tensors}: on the device where these have memory of their own, else streamed from host memory.
 */
export class HostResult implements Team {
  /** An exchange of one. */
  readonly rank = 0;
  /** An exchange of one. */
  readonly size = 1;
  readonly #x: Tensor;
  readonly #name: string;
  readonly #shape: Shape;
  #tensors: readonly DeviceTensor[] | undefined;

  /**
   * Records the reading, behind what the graph has so far.
   *
   * @param x f32, which products and attention alone read
   * @param name of the tensors, in messages
   * @param shape of each of the tensors that it is cut into, as it lies in memory
   * @throws {RangeError} when it is not cut into whole ones
   */
  constructor(x: Tensor, name: string, shape: Shape = x.shape) {
    if (x.size % elementCount(shape) !== 0) {
      throw new RangeError(`Cannot cut ${x} into parts of ${formatShape(shape)}: some is left`);
    }
    // What it is a part of may have to stay f32.
    this.#x = x.isWhole ? x : elementwise("x", { x });
    this.#name = name;
    this.#shape = shape;
    exchange(x.graph, this, name, [this.#x], [], { areFactors: true });
  }

  /** What was read, with the type that it has in the traced program. */
  get tensors(): readonly DeviceTensor[] {
    return this.#tensors ??= this.#declare();
  }

  #declare(): DeviceTensor[] {
    const { dispatches } = this.#x.graph;
    const { tensors: [x] } = dispatches.find(({ exchange }) => exchange?.team === this)!;
    return Array.from(
      { length: this.#x.size / elementCount(this.#shape) },
      (_, i) =>
        new DeviceTensor(`${this.#name} ${i}`, this.#shape, x!.dtype, ({ name }) => {
          throw new Error(
            `Cannot fill tensor "${name}": its program has not run; run it before those that read the tensor`,
          );
        }),
    );
  }

  /** Takes what was read. Throws `SaturationError` when a factor was beyond f16. */
  meet({ brought: [bytes], note }: Meeting): Promise<Uint8Array<ArrayBuffer>[]> {
    if (note !== "") throw new SaturationError(JSON.parse(note));
    const size = bytes!.byteLength / this.tensors.length;
    this.tensors.forEach((tensor, i) => {
      tensor.take(bytes!.subarray(i * size, (i + 1) * size) as Uint8Array<ArrayBuffer>);
    });
    return Promise.resolve([]);
  }
}
