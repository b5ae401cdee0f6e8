/**
 * The tokens of a pass on several GPUs, which exchange queries, keys and values around attention: each attends with some of
 * the heads (Ulysses), some of the queries (ring), or both. All keys and values are in shared memory at once.
 * Source: Jacobs et al. 2023, "DeepSpeed Ulysses"; Liu et al. 2023, "Ring Attention with Blockwise Transformers"; Fang and
 * Zhao 2024, "USP: A Unified Sequence Parallelism Approach", with its order of ranks.
 */
import {
  attention,
  type AttentionOptions,
  concat,
  elementwise,
  exchange,
  shareBounds,
  slice,
  type Team,
  type Tensor,
} from "../../runtime/mod.ts";
import type { SequenceTeam } from "./ranks.ts";
import { rearrange } from "../rearrange.ts";

/** A piece of what a rank brings, in elements. */
type Piece = { readonly rank: number; readonly start: number; readonly size: number };

export class TokenSplit {
  readonly #sequence: SequenceTeam | undefined;
  readonly #counts: readonly number[];

  /** Streams are split each by itself, attention is over all; each GPU computes all of fewer tokens than GPUs. */
  constructor(sequence: SequenceTeam | undefined, streams: readonly number[]) {
    const { size = 1 } = sequence?.team ?? {};
    if (streams.every((tokens) => tokens >= size)) this.#sequence = sequence;
    this.#counts = Array.from(
      { length: size },
      (_, rank) => streams.reduce((sum, tokens) => sum + sizeOfShare(tokens, size, rank), 0),
    );
  }

  like(streams: readonly number[]): TokenSplit {
    return new TokenSplit(this.#sequence, streams);
  }

  /** Own tokens of a stream that both have: part of what a pass beside this one computed, where that is alone. */
  ownBeside(x: Tensor, other: TokenSplit): Tensor {
    return other.#sequence ? x : this.own(x);
  }

  own(x: Tensor, axis = 1): Tensor {
    if (!this.#sequence) return x;
    const [start, end] = this.#bounds(x.dim(axis));
    return slice(x, axis, start, end);
  }

  ownOf<T>(items: readonly T[]): readonly T[] {
    return this.#sequence ? items.slice(...this.#bounds(items.length)) : items;
  }

  ownCount(tokens: number): number {
    const [start, end] = this.#bounds(tokens);
    return end - start;
  }

  /** All tokens of a stream on all GPUs, of own ones, [batch, own tokens, ...]. */
  gather(x: Tensor, tokens: number): Tensor {
    if (!this.#sequence) return x;
    const { team } = this.#sequence;
    const [batch, , ...rest] = x.shape as [number, number, ...number[]];
    const width = rest.reduce((product, size) => product * size, 1);
    const sizes = allRanks(team).map((rank) => sizeOfShare(tokens, team.size, rank));
    const [all] = exchangeParts(team, "all tokens", [x], [{
      own: x,
      axis: 1,
      ranks: allRanks(team),
      shape: (size) => [batch, size, ...rest],
      sizeOf: (rank) => sizes[rank]!,
      pieces: (rank) =>
        samples(batch).map((sample) => {
          const size = sizes[rank]! * width;
          return { rank, start: sample * size, size };
        }),
    }]);
    return all!;
  }

  /** What is computed of a stream's first tokens, on all GPUs; own tokens of other streams may stand before `offset`. */
  gatherFirst(
    x: Tensor,
    { offset = 0, count, tokens }: { offset?: number; count: number; tokens: number },
    compute: (x: Tensor) => Tensor,
  ): Tensor {
    if (!this.#sequence) return compute(slice(x, 1, offset, offset + count));
    const own = slice(x, 1, offset, offset + this.ownCount(tokens));
    return slice(this.gather(compute(own), tokens), 1, 0, count);
  }

  /**
   * Attention of own queries, [batch, own tokens, heads, head size], to the keys of all GPUs, and to those `before` them,
   * all of which every GPU has.
   */
  attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    options: AttentionOptions = {},
    before: readonly { readonly key: Tensor; readonly value: Tensor }[] = [],
  ): Tensor {
    const attend = (q: Tensor, k: Tensor, v: Tensor, own = (x: Tensor) => x) => {
      const join = (part: "key" | "value", x: Tensor) => {
        const all = [...before.map((state) => own(state[part])), x];
        // What attention rounds anyway may have been kept so.
        const isHalf = all.some(({ dtype }) => dtype === "f16");
        return all.length > 1 ? concat(isHalf ? all.map(half) : all, 1) : x;
      };
      return attention(q, join("key", k), join("value", v), options);
    };
    if (!this.#sequence) return attend(q, k, v);
    const { team, ulysses } = this.#sequence;
    const first = team.rank - team.rank % ulysses;
    const group = Array.from({ length: ulysses }, (_, i) => first + i);
    const all = allRanks(team);
    if (ulysses === 1) {
      const [keys, values] = this.#takeHeads([k, v], [all, all]);
      return attend(q, keys!, values!);
    }
    const [queries, keys, values] = this.#takeHeads([q, k, v], [group, all, all]);
    const own = team.rank - first;
    const ownHeads = (x: Tensor) => {
      const heads = x.dim(2) / ulysses;
      return slice(x, 2, own * heads, (own + 1) * heads);
    };
    return this.#giveHeads(attend(queries!, keys!, values!, ownHeads), group);
  }

  /** Own heads of tensors, each with the tokens of these ranks. */
  #takeHeads(parts: readonly Tensor[], ranks: readonly (readonly number[])[]): Tensor[] {
    const { team, ulysses } = this.#sequence!;
    const [batch, , heads, headDim] = parts[0]!.shape as [number, number, number, number];
    if (parts.some((part) => part.dim(2) % ulysses !== 0)) {
      throw new RangeError(
        `Cannot share ${heads} heads between ${ulysses} GPUs: they must be a multiple; use another ulysses degree`,
      );
    }
    // Heads in as many blocks as ranks take, each together.
    const blocks = parts.map((part) => rearrange(part, "b t (u h) d -> u b t h d", { u: ulysses }));
    const own = team.rank % ulysses;
    // Without ring nobody else takes the own block.
    const isWhole = team.size > ulysses;
    const count = isWhole ? ulysses : ulysses - 1;
    const brought = isWhole ? blocks : blocks.flatMap((block) => around(block, 0, own, own + 1));
    const wanted = parts.map((part, i): Wanted => {
      const width = part.dim(2) / ulysses * headDim;
      const before = parts.slice(0, i).reduce((sum, other) => sum + other.dim(2), 0) /
        ulysses * headDim;
      return {
        own: slice(blocks[i]!, 0, own, own + 1).reshape(batch, -1, part.dim(2) / ulysses, headDim),
        axis: 1,
        ranks: ranks[i]!,
        shape: (tokens) => [batch, tokens, part.dim(2) / ulysses, headDim],
        sizeOf: (rank) => this.#counts[rank]!,
        pieces: (rank) => {
          const tokens = this.#counts[rank]!;
          const block = isWhole || own < rank % ulysses ? own : own - 1;
          return samples(batch).map((sample) => ({
            rank,
            start: count * batch * tokens * before + (block * batch + sample) * tokens * width,
            size: tokens * width,
          }));
        },
      };
    });
    return exchangeParts(team, "heads", brought, wanted);
  }

  /** Own tokens with all heads, of an attention over the tokens of a group with own heads. */
  #giveHeads(result: Tensor, group: readonly number[]): Tensor {
    const { team } = this.#sequence!;
    const [batch, all, heads, headDim] = result.shape as [number, number, number, number];
    const width = heads * headDim;
    const begin = (rank: number) =>
      group.filter((other) => other < rank)
        .reduce((sum, other) => sum + this.#counts[other]!, 0);
    const [own, start] = [this.#counts[team.rank]!, begin(team.rank)];
    const [taken] = exchangeParts(
      ...[team, "tokens", around(result, 1, start, start + own)] as const,
      [{
        own: slice(result, 1, start, start + own).reshape(1, batch, own, heads, headDim),
        axis: 0,
        ranks: group,
        sizeOf: () => 1,
        shape: (count) => [count, batch, own, heads, headDim],
        pieces: (rank) => {
          // What a rank brings are the tokens before its own, then those behind them.
          const [before, tokens] = [begin(rank), this.#counts[rank]!];
          const isBefore = team.rank < rank;
          const first = isBefore ? 0 : batch * before;
          const [row, offset] = isBefore
            ? [before, start]
            : [all - before - tokens, start - before - tokens];
          return samples(batch).map((sample) => ({
            rank,
            start: (first + sample * row + offset) * width,
            size: own * width,
          }));
        },
      }],
    );
    return rearrange(taken!, "u b t h d -> b t (u h) d");
  }

  #bounds(tokens: number): [start: number, end: number] {
    if (!this.#sequence) return [0, tokens];
    const { rank, size } = this.#sequence.team;
    return shareBounds(tokens, size).slice(rank, rank + 2) as [number, number];
  }
}

export const ALL_TOKENS: TokenSplit = new TokenSplit(undefined, []);

/** As f16. */
export function half(x: Tensor): Tensor {
  return x.dtype === "f16" ? x : elementwise("1.0 * x", { x }, { dtype: "f16", name: "half" });
}

function sizeOfShare(tokens: number, ranks: number, rank: number): number {
  const bounds = shareBounds(tokens, ranks);
  return bounds[rank + 1]! - bounds[rank]!;
}

/** A tensor that is put together from the parts of several ranks along an axis, the own one among them. */
interface Wanted {
  readonly own: Tensor;
  readonly axis: number;
  readonly ranks: readonly number[];
  shape(size: number): number[];
  sizeOf(rank: number): number;
  /** Pieces of what a rank brings, one for each sample. */
  pieces(rank: number): Piece[];
}

function exchangeParts(
  team: Team,
  name: string,
  brought: readonly Tensor[],
  wanted: readonly Wanted[],
): Tensor[] {
  const sides = wanted.map(({ own, axis, ranks, shape, sizeOf, pieces }) =>
    [
      ranks.filter((rank) => rank < team.rank),
      ranks.filter((rank) => rank > team.rank),
    ].map((others) => {
      if (others.length === 0) return undefined;
      const size = others.reduce((sum, rank) => sum + sizeOf(rank), 0);
      const all = others.map(pieces);
      // Samples are further out than ranks where these are joined along the tokens.
      const ordered = axis === 0
        ? all.flat()
        : all[0]!.flatMap((_, sample) => all.map((own) => own[sample]!));
      return { name: own.name, shape: shape(size), pieces: ordered };
    })
  );
  const asked = sides.flat().filter((side) => side !== undefined);
  const taken = [...exchange(wanted[0]!.own.graph, team, name, brought, asked)];
  return sides.map(([before, after], i) => {
    const { own, axis } = wanted[i]!;
    const first = before && taken.shift();
    const last = after && taken.shift();
    return concat([first, own, last].filter((part) => part !== undefined), axis);
  });
}

function around(x: Tensor, axis: number, start: number, end: number): Tensor[] {
  const size = x.dim(axis);
  return [
    ...start > 0 ? [slice(x, axis, 0, start)] : [],
    ...end < size ? [slice(x, axis, end, size)] : [],
  ];
}

function allRanks({ size }: Team): number[] {
  return Array.from({ length: size }, (_, rank) => rank);
}

function samples(batch: number): number[] {
  return Array.from({ length: batch }, (_, sample) => sample);
}
