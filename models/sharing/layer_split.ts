/** The layers of a pass on several GPUs, one after the other: each has its own weights alone, so larger models fit. */
import { exchange, type Team, Tensor } from "../../runtime/mod.ts";

export class LayerSplit {
  readonly #team: Team | undefined;
  readonly #owners: readonly number[];

  /** Each GPU gets as equal a part of the layers' sizes as can be; all layers if they are fewer than GPUs. */
  constructor(team: Team | undefined, sizes: readonly number[]) {
    if (!team || sizes.length < team.size) {
      this.#owners = [];
      return;
    }
    this.#team = team;
    this.#owners = ownersOf(sizes, team.size);
  }

  /** Runs a layer if it is own, and hands the state, tensors in lists and records, to the next one's GPU. Layers run in order. */
  run<S>(index: number, state: S, layer: (state: S) => S): S {
    if (!this.#team) return layer(state);
    const [owner, next] = [this.#owners[index]!, this.#owners[index + 1]];
    const result = owner === this.#team.rank ? layer(state) : state;
    return next === undefined || next === owner ? result : this.#hand(result, owner, next);
  }

  share(result: Tensor): Tensor {
    const last = this.#owners.at(-1);
    return last === undefined ? result : this.#give(result, last, () => true);
  }

  #hand<S>(state: S, from: number, to: number): S {
    return this.#give(state, from, (rank) => rank === to);
  }

  #give<S>(state: S, from: number, takes: (rank: number) => boolean): S {
    const team = this.#team!;
    const values = tensorsOf(state);
    const { graph } = values[0]!;
    let start = 0;
    const taken = values.map(({ name, shape, size }) => {
      const piece = { rank: from, start, size };
      start += size;
      return { name, shape, pieces: [piece] };
    });
    const isGiver = team.rank === from;
    const received = exchange(
      ...[graph, team, `from GPU ${from}`, isGiver ? values : []] as const,
      !isGiver && takes(team.rank) ? taken : [],
    );
    if (received.length === 0) return state;
    const left = [...received];
    return mapTensors(state, () => left.shift()!);
  }
}

function tensorsOf(state: unknown): Tensor[] {
  const tensors: Tensor[] = [];
  mapTensors(state, (tensor) => {
    tensors.push(tensor);
    return tensor;
  });
  return tensors;
}

function mapTensors<S>(state: S, change: (tensor: Tensor) => Tensor): S {
  if (state instanceof Tensor) return change(state) as S;
  if (Array.isArray(state)) return state.map((part) => mapTensors(part, change)) as S;
  if (typeof state !== "object" || state === null) return state;
  // In the same order on all GPUs, however a layer wrote its result.
  const names = Object.keys(state).toSorted() as (keyof S)[];
  return Object.fromEntries(names.map((name) => [name, mapTensors(state[name], change)])) as S;
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
