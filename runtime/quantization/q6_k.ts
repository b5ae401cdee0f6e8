import { type BlockFormat, bytesWgsl, halfWgsl, pairNibbles, runWgsl } from "./block_format.ts";

/** Elements of a block, and with one scale. */
const ELEMENTS = 256;
const PART = 16;
/** Where the parts of a block start: low bits from 0 on, high bits, scales, d. */
const HIGH = 128;
const SCALES = HIGH + 64;
const SCALE = SCALES + ELEMENTS / PART;

/** For {@linkcode shuffle}. */
const BITS = new Uint32Array(48);

/** For each quarter four words of low bits, then for each quarter two words of high bits, those of access i from bit 2i on. */
function shuffle(words: Uint32Array, at: number): void {
  BITS.set(words.subarray(at, at + BITS.length));
  for (let part = 0; part < 8; part++) {
    const half = part >> 2;
    const quarter = part & 3;
    const low = 16 * half + 8 * (quarter & 1);
    for (let i = 0; i < 4; i++) {
      words[at + part * 4 + i] = pairNibbles(
        BITS[low + i]!,
        BITS[low + i + 4]!,
        quarter < 2 ? 0 : 4,
      );
    }
    for (let word = 0; word < 2; word++) {
      let bits = 0;
      for (let i = 0; i < 4; i++) {
        const source = BITS[32 + 8 * half + 4 * word + i]!;
        bits |= ((source >>> (2 * quarter)) & 0x03030303) << (2 * i);
      }
      words[at + 32 + part * 2 + word] = bits;
    }
  }
}

/**
 * Blocks of 256 in two halves of four quarters of 32: 128 bytes of low bits, 64 of high bits, int8 S[16], f16 d.
 * In half h, quarter k has low bits in bytes 64h + 32 (k & 1) + l, the low nibble for k < 2, and bits 2k, 2k+1 of
 * byte 32h + l above them; element i is (d · S[i / 16]) · (q − 32).
 */
export const Q6_K: BlockFormat = {
  name: "q6_k",
  blockElements: ELEMENTS,
  blockBytes: SCALE + 2,
  groupBlocks: 8,
  looseScale: SCALE,
  headerBytes: 0,
  scaleRun: 4,
  shuffle,
  decodeBlock(block, values) {
    const d = block.getFloat16(SCALE, true);
    for (let i = 0; i < ELEMENTS; i++) {
      const half = i >> 7;
      const quarter = (i >> 5) & 3;
      const l = i & 31;
      const low = block.getUint8(64 * half + 32 * (quarter & 1) + l) >> (quarter < 2 ? 0 : 4);
      const high = block.getUint8(HIGH + 32 * half + l) >> (2 * quarter);
      const q = (low & 15) | ((high & 3) << 4);
      values[i] = Math.fround(d * block.getInt8(SCALES + Math.floor(i / PART))) * (q - 32);
    }
  },
  // A group is 420 words: 8 blocks of 52 (32 of low bits, 16 of high bits, 4 of scales), 4 words of d.
  decoder: (name) =>
    `fn ${name}_scale(i: u32) -> vec2<f32> {
  let group = (i >> 9u) * 420u;
  let block = (i >> 6u) & 7u;
  let part = (i >> 2u) & 15u;
  let scales = bitcast<i32>(${name}_u32(group + block * 52u + 48u + (part >> 2u)));
  let scale = (scales << (24u - (part & 3u) * 8u)) >> 24u;
  return vec2<f32>(${halfWgsl(name, "group + 416u", "block")} * f32(scale), 0.0);
}
fn ${name}_scaled(i: u32, s: vec2<f32>) -> vec4<f32> {
  let block = (i >> 9u) * 420u + ((i >> 6u) & 7u) * 52u;
  let part = (i >> 3u) & 7u;
  let low = ${name}_u32(block + part * 4u + (i & 3u)) >> (i & 4u);
  let high = ${name}_u32(block + 32u + ((i >> 2u) & 15u)) >> ((i & 3u) * 2u);
  let q = (low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u);
  return s.x * (vec4<f32>(${bytesWgsl("q")}) - vec4<f32>(32.0));
}
${
      runWgsl(
        name,
        `  let group = (i >> 9u) * 105u;
  let inGroup = (i >> 6u) & 7u;
  let block = group + inGroup * 13u;
  let part = (i >> 3u) & 7u;
  let scales = bitcast<i32>(${name}_u32(block * 4u + 48u + (part >> 1u)) >> ((part & 1u) * 16u));
  let d = ${halfWgsl(name, "group * 4u + 416u", "inGroup")};
  let scale = d * vec2<f32>((vec2<i32>(scales) << vec2<u32>(24u, 16u)) >> vec2<u32>(24u));
  let low = ${name}_word(block + part);
  let pairs = ${name}_word(block + 8u + (part >> 1u));
  let high = select(pairs.xy, pairs.zw, (part & 1u) == 1u);
  let high0 = high.xxxx >> vec4<u32>(0u, 2u, 4u, 6u);
  let high1 = high.yyyy >> vec4<u32>(0u, 2u, 4u, 6u);
  let p0 = (low & vec4<u32>(0x0f0f0f0fu)) | ((high0 & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
  let p1 = ((low >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | ((high1 & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
  let s = vec4<f32>(scale, -32.0 * scale);`,
      )
    }`,
};
