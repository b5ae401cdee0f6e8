/**
 * Gaussian noise that equals `torch.randn(..., generator=torch.Generator("cpu"))`, bit for bit: the Mersenne Twister MT19937
 * (Matsumoto and Nishimura, 1998) and PyTorch's two Box–Muller paths. Tensors of 16 values and more take one compiled for
 * AVX2 with float32 polynomials of the Cephes library and fused multiply-adds. Other processors
 * (`ATEN_CPU_CAPABILITY=default`, ARM) call the C library and differ in the last bit of some lanes.
 */

const STATE_SIZE = 624;
const STATE_SHIFT = 397;
const MATRIX_A = 0x9908b0df;
const UPPER_MASK = 0x80000000;
const LOWER_MASK = 0x7fffffff;

const fround = Math.fround;

/** PyTorch fills in blocks of this many values: eight radii and eight angles. */
const BLOCK = 16;
const HALF_BLOCK = 8;

// Cephes `logf`: log(1 + x) ≈ x − x²/2 + x³·P(x) for x in [√½ − 1, √2 − 1], and ln 2 in two parts
// so that e·LN2_HIGH is exact.
const SQRT_HALF = fround(0.707106781186547524);
const LOG_P0 = fround(7.0376836292e-2);
const LOG_P1 = fround(-1.1514610310e-1);
const LOG_P2 = fround(1.1676998740e-1);
const LOG_P3 = fround(-1.2420140846e-1);
const LOG_P4 = fround(1.4249322787e-1);
const LOG_P5 = fround(-1.6668057665e-1);
const LOG_P6 = fround(2.0000714765e-1);
const LOG_P7 = fround(-2.4999993993e-1);
const LOG_P8 = fround(3.3333331174e-1);
const LN2_LOW = fround(-2.12194440e-4);
const LN2_HIGH = fround(0.693359375);

// Cephes `sinf` and `cosf`: π/4 in three parts, and the polynomials on [−π/4, π/4].
const FOUR_OVER_PI = fround(1.27323954473516);
const QUARTER_PI_1 = fround(-0.78515625);
const QUARTER_PI_2 = fround(-2.4187564849853515625e-4);
const QUARTER_PI_3 = fround(-3.77489497744594108e-8);
const SIN_P0 = fround(-1.9515295891e-4);
const SIN_P1 = fround(8.3321608736e-3);
const SIN_P2 = fround(-1.6666654611e-1);
const COS_P0 = fround(2.443315711809948e-5);
const COS_P1 = fround(-1.388731625493765e-3);
const COS_P2 = fround(4.166664568298827e-2);

const TWO_PI = fround(2 * Math.PI);

/**
 * a·b + c with one rounding to float32. The product is exact in float64; rounding the sum twice differs only on the midpoint
 * of two neighbouring float32, where the sign of the float64 rounding error decides.
 */
function fma(a: number, b: number, c: number): number {
  const product = a * b;
  const sum = product + c;
  const rounded = fround(sum);
  if (rounded === sum) return rounded;
  const mirrored = sum + (sum - rounded);
  if (fround(mirrored) !== mirrored) return rounded;
  const shadow = sum - product;
  const error = (product - (sum - shadow)) + (c - shadow);
  if (error === 0) return rounded;
  return (error > 0) === (mirrored > rounded) ? mirrored : rounded;
}

const exponentView = new Float32Array(1);
const exponentBits = new Int32Array(exponentView.buffer);

/** Natural logarithm in float32, for x in (0, 1]. */
function logF32(x: number): number {
  exponentView[0] = x;
  const bits = exponentBits[0]!;
  let exponent = (bits >>> 23) - 126;
  exponentBits[0] = (bits & 0x007fffff) | 0x3f000000;
  const mantissa = exponentView[0]!;
  let r = fround(mantissa - 1);
  if (mantissa < SQRT_HALF) {
    exponent -= 1;
    r = fround(r + mantissa);
  }
  const square = fround(r * r);
  let y = fma(LOG_P0, r, LOG_P1);
  y = fma(y, r, LOG_P2);
  y = fma(y, r, LOG_P3);
  y = fma(y, r, LOG_P4);
  y = fma(y, r, LOG_P5);
  y = fma(y, r, LOG_P6);
  y = fma(y, r, LOG_P7);
  y = fma(y, r, LOG_P8);
  y = fround(y * r);
  y = fma(y, square, fround(exponent * LN2_LOW));
  y = fma(-0.5, square, y);
  return fma(exponent, LN2_HIGH, fround(r + y));
}

/** Box–Muller over a block in place: uniforms in [0, 1), 0–7 for radii and 8–15 for angles, become normal. */
function transformBlock(data: Float32Array, start: number): void {
  for (let lane = start; lane < start + HALF_BLOCK; lane++) {
    const radius = fround(Math.sqrt(fround(-2 * logF32(fround(1 - data[lane]!)))));
    const theta = fround(TWO_PI * data[lane + HALF_BLOCK]!);

    // Octant, made even; the angle reduced to [−π/4, π/4].
    const octant = (Math.trunc(fround(theta * FOUR_OVER_PI)) + 1) & ~1;
    let x = fma(octant, QUARTER_PI_1, theta);
    x = fma(octant, QUARTER_PI_2, x);
    x = fma(octant, QUARTER_PI_3, x);
    const square = fround(x * x);

    let even = fma(COS_P0, square, COS_P1);
    even = fma(even, square, COS_P2);
    even = fround(even * square);
    even = fma(even, square, fround(-0.5 * square));
    even = fround(even + 1);

    let odd = fma(SIN_P0, square, SIN_P1);
    odd = fma(odd, square, SIN_P2);
    odd = fround(odd * square);
    odd = fma(odd, x, x);

    const swapped = (octant & 2) !== 0;
    let sine = swapped ? even : odd;
    let cosine = swapped ? odd : even;
    if ((octant & 4) !== 0) sine = -sine;
    if (((octant - 2) & 4) === 0) cosine = -cosine;

    // PyTorch ends with ·1 + 0, which turns −0 into +0.
    data[lane] = fround(radius * cosine) + 0;
    data[lane + HALF_BLOCK] = fround(radius * sine) + 0;
  }
}

/** PyTorch's CPU random generator, as far as `randn` in float32 needs it; its state lives on between calls. */
export class TorchGenerator {
  readonly #state = new Uint32Array(STATE_SIZE);
  #next = STATE_SIZE;
  /** The second value of the last Box–Muller pair of the scalar path; it waits for the next call. */
  #spare: number | undefined;

  /** `seed` is what `manual_seed` takes, −2⁶³ to 2⁶⁴ − 1; only the low 32 bits of its two's complement count. */
  constructor(seed: number | bigint) {
    if (typeof seed === "number" && !Number.isSafeInteger(seed)) {
      throw new RangeError(
        `Cannot seed the noise generator: ${seed} is not a safe integer; pass a bigint beyond 2^53 - 1`,
      );
    }
    const wide = BigInt(seed);
    if (wide < -(1n << 63n) || wide >= 1n << 64n) {
      throw new RangeError(
        `Cannot seed the noise generator: ${wide} is outside -2^63 to 2^64 - 1`,
      );
    }
    const state = this.#state;
    state[0] = Number(BigInt.asUintN(32, wide));
    for (let j = 1; j < STATE_SIZE; j++) {
      const previous = state[j - 1]! ^ (state[j - 1]! >>> 30);
      state[j] = Math.imul(1812433253, previous) + j;
    }
  }

  /** `torch.randn(n, generator=...)` in float32, row-major; under 16 values PyTorch takes another path, followed here. */
  randn(n: number): Float32Array<ArrayBuffer> {
    if (!Number.isSafeInteger(n) || n < 0) {
      throw new RangeError(`Cannot make noise: the number of values is ${n}, not an integer >= 0`);
    }
    const data = new Float32Array(n);
    if (n < BLOCK) {
      for (let i = 0; i < n; i++) data[i] = this.#normal();
      return data;
    }
    for (let i = 0; i < n; i++) data[i] = (this.#uint32() & 0xffffff) * 2 ** -24;
    for (let start = 0; start + BLOCK <= n; start += BLOCK) transformBlock(data, start);
    if (n % BLOCK !== 0) {
      // The last 16 values are drawn again, those among them that a whole block had set included.
      const start = n - BLOCK;
      for (let i = start; i < n; i++) data[i] = (this.#uint32() & 0xffffff) * 2 ** -24;
      transformBlock(data, start);
    }
    return data;
  }

  /** One value of the scalar path: Box–Muller in float64, one value out and one kept. */
  #normal(): number {
    const spare = this.#spare;
    if (spare !== undefined) {
      this.#spare = undefined;
      return spare;
    }
    const angle = 2 * Math.PI * this.#uniform53();
    const radius = Math.sqrt(-2 * Math.log1p(-this.#uniform53()));
    this.#spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }

  /** A float64 in [0, 1) from the low 53 bits of two draws, the first draw the higher. */
  #uniform53(): number {
    const high = this.#uint32() & 0x1fffff;
    return (high * 2 ** 32 + (this.#uint32() >>> 0)) * 2 ** -53;
  }

  #uint32(): number {
    if (this.#next === STATE_SIZE) this.#twist();
    let y = this.#state[this.#next++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return y ^ (y >>> 18);
  }

  #twist(): void {
    const state = this.#state;
    for (let k = 0; k < STATE_SIZE; k++) {
      const mixed = (state[k]! & UPPER_MASK) | (state[(k + 1) % STATE_SIZE]! & LOWER_MASK);
      const source = state[(k + STATE_SHIFT) % STATE_SIZE]!;
      state[k] = source ^ (mixed >>> 1) ^ ((mixed & 1) !== 0 ? MATRIX_A : 0);
    }
    this.#next = 0;
  }
}
