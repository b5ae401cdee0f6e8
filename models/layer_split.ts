/**
 * The layers of a transformer's pass on several GPUs, one after the other: each has the weights of its own alone, and hands
 * on what it computed. So a model fits that no single one of them holds.
 */
import { exchange, type Team, type Tensor } from "../runtime/mod.ts";

/** What goes from layer to layer. */
type State<S> = { readonly [Key in keyof S]: Tensor | undefined };

/** How one GPU takes part. One that is alone has all layers. */
export class LayerSplit {
  readonly #team: Team | undefined;
  /** The GPU of each layer. */
  readonly #owners: readonly number[];

  /**
   * @param team nothing for a GPU alone. Where there are fewer layers than GPUs, each computes all of them
   * @param sizes of the layers, of whatever unit: each GPU gets as equal a part as can be
   */
  constructor(team: Team | undefined, sizes: readonly number[]) {
    if (!team || sizes.length < team.size) {
      this.#owners = [];
      return;
    }
    this.#team = team;
    this.#owners = ownersOf(sizes, team.size);
  }

  /**
   * Runs a layer where it is own, and hands on what it gives where the next one is another GPU's.
   *
   * @param index of the layer; all are run in order
   * @returns the state, as the next layer takes it; of no use where that is not own
   */
  run<S extends State<S>>(index: number, state: S, layer: (state: S) => S): S {
    if (!this.#team) return layer(state);
    const [owner, next] = [this.#owners[index]!, this.#owners[index + 1]];
    const result = owner === this.#team.rank ? layer(state) : state;
    return next === undefined || next === owner ? result : this.#hand(result, owner, next);
  }

  /** What the last layer's GPU makes, on all of them. */
  share(result: Tensor): Tensor {
    const last = this.#owners.at(-1);
    return last === undefined ? result : this.#give({ result }, last, () => true).result;
  }

  #hand<S extends State<S>>(state: S, from: number, to: number): S {
    return this.#give(state, from, (rank) => rank === to);
  }

  #give<S extends State<S>>(state: S, from: number, takes: (rank: number) => boolean): S {
    const team = this.#team!;
    const values = (Object.entries(state) as [string, Tensor | undefined][])
      .flatMap(([name, value]) => value ? [[name, value] as const] : []);
    const [[, { graph }]] = values as [typeof values[number]];
    let start = 0;
    const taken = values.map(([name, { shape, size }]) => {
      const piece = { rank: from, start, size };
      start += size;
      return { name, shape, pieces: [piece] };
    });
    const isGiver = team.rank === from;
    const brought = isGiver ? values.map(([, value]) => value) : [];
    const received = exchange(
      ...[graph, team, `from GPU ${from}`, brought] as const,
      !isGiver && takes(team.rank) ? taken : [],
    );
    if (received.length === 0) return state;
    return Object.fromEntries(values.map(([name], i) => [name, received[i]!])) as unknown as S;
  }
}

/** Which of several GPUs has each layer: neighbours, so that each has about as much, and none has nothing. */
function ownersOf(sizes: readonly number[], ranks: number): number[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const owners: number[] = [];
  let before = 0;
  for (const [i, size] of sizes.entries()) {
    const wanted = Math.floor((before + size / 2) / total * ranks);
    const last = owners.at(-1) ?? -1;
    // Each GPU follows the one before, and as many layers are left as GPUs.
    const least = Math.max(0, last, ranks - (sizes.length - i));
    owners.push(Math.min(Math.max(wanted, least), last + 1, ranks - 1));
    before += size;
  }
  return owners;
}
