/** Tensors that GPUs hand each other in the middle of a program. */
import type { Graph, Tensor } from "../../graph/graph.ts";
import type { Kernel } from "../../shaders/kernel.ts";
import { elementCount, type Shape } from "../../shape.ts";
import type { Team } from "../../team/team.ts";

/** A tensor that a rank takes: elements of what ranks bring, one piece behind the other. */
export interface TakenTensor {
  /** Name in messages. */
  readonly name: string;
  /** Sizes, outermost first. */
  readonly shape: Shape;
  /** Pieces in elements, counted over all tensors that a rank brings. */
  readonly pieces: readonly {
    readonly rank: number;
    readonly start: number;
    readonly size: number;
  }[];
}

/**
 * Brings tensors to the team, and takes what others bring. The program goes on when all ranks are here.
 *
 * @param name equal for all ranks
 * @param brought f32, of the same graph
 * @param options.areFactors whether what is brought may be stored as f16, as what products alone read; nothing is taken then
 * @throws {TypeError} when something that is brought is no f32
 * @throws {RangeError} when pieces and shape differ in size
 */
export function exchange(
  graph: Graph,
  team: Team,
  name: string,
  brought: readonly Tensor[],
  taken: readonly TakenTensor[],
  { areFactors = false }: { readonly areFactors?: boolean } = {},
): Tensor[] {
  for (const tensor of brought) {
    if (tensor.dtype === "f32") continue;
    throw new TypeError(`Cannot exchange ${tensor}: only f32 is exchanged`);
  }
  const results = taken.map(({ name, shape, pieces }) => {
    const size = pieces.reduce((sum, { size }) => sum + size, 0);
    if (size === elementCount(shape)) return graph.tensor(name, shape);
    throw new RangeError(
      `Cannot exchange "${name}": its pieces have ${size} elements, its shape ${
        elementCount(shape)
      }`,
    );
  });
  const buffers = {
    ...Object.fromEntries(brought.map((tensor, i) => [`brought${i}`, tensor])),
    ...Object.fromEntries(results.map((tensor, i) => [`taken${i}`, tensor])),
  };
  graph.dispatch({
    kernel: exchangeKernel(name, brought.length, taken.length),
    buffers,
    params: {},
    workgroups: [1, 1, 1],
    ...(areFactors && { factors: brought.map((_, i) => `brought${i}`) }),
    exchange: {
      team,
      broughtBytes: brought.map(({ size }) => size * 4),
      taken: taken.map(({ pieces }) =>
        pieces.map(({ rank, start, size }) => ({ rank, start: start * 4, byteLength: size * 4 }))
      ),
      saturation: graph.saturation,
    },
  });
  return results;
}

/** Stands for what no kernel does. */
function exchangeKernel(name: string, brought: number, taken: number): Kernel {
  const slots = (count: number, name: string, access: "read" | "read_write") =>
    Array.from({ length: count }, (_, i) => ({ name: `${name}${i}`, access, width: 1 as const }));
  return {
    name,
    buffers: [...slots(brought, "brought", "read"), ...slots(taken, "taken", "read_write")],
    params: {},
    workgroupSize: [1, 1, 1],
    body: "",
  };
}
