/** Seeds of NumPy's `SeedSequence`, after O'Neill's `seed_seq_fe`: many independent ones from one number and a key. */

const [INIT_A, MULT_A] = [0x43b0d7e5, 0x931e8875];
const [INIT_B, MULT_B] = [0x8b51f9dd, 0x58f38ded];
const [MIX_LEFT, MIX_RIGHT] = [0xca01f9dd, 0x4973f715];

const WORD = 0xffffffffn;

/** The first word of 32 bits for a key of numbers below 2^32. */
export function spawnedSeed(
  entropy: number | bigint,
  key: readonly number[],
  poolSize: number,
): number {
  const words = wordsOf(BigInt(entropy));
  // Without a key the rest of the pool is hashed as zeros, too.
  while (words.length < poolSize) words.push(0);
  const [first] = mixed([...words, ...key], poolSize);
  const word = Math.imul(first! ^ INIT_B, Math.imul(INIT_B, MULT_B));
  return (word ^ word >>> 16) >>> 0;
}

function wordsOf(value: bigint): number[] {
  const words: number[] = [];
  for (let rest = BigInt.asUintN(64, value); rest > 0n; rest >>= 32n) {
    words.push(Number(rest & WORD));
  }
  return words;
}

function mixed(entropy: readonly number[], poolSize: number): Uint32Array {
  let hash = INIT_A;
  const hashed = (value: number): number => {
    const before = value ^ hash;
    hash = Math.imul(hash, MULT_A);
    const word = Math.imul(before, hash);
    return word ^ word >>> 16;
  };
  const mix = (one: number, other: number): number => {
    const word = Math.imul(MIX_LEFT, one) - Math.imul(MIX_RIGHT, other) | 0;
    return word ^ word >>> 16;
  };
  const pool = Uint32Array.from(entropy.slice(0, poolSize), hashed);
  for (let from = 0; from < poolSize; from++) {
    for (let to = 0; to < poolSize; to++) {
      if (from !== to) pool[to] = mix(pool[to]!, hashed(pool[from]!));
    }
  }
  for (const word of entropy.slice(poolSize)) {
    for (let to = 0; to < poolSize; to++) pool[to] = mix(pool[to]!, hashed(word));
  }
  return pool;
}
