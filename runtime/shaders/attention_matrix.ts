import type { Kernel } from "./assemble.ts";
import { roundUp } from "../shape.ts";
import {
  attentionBuffers,
  type AttentionLogits,
  attentionParams,
  HIDDEN,
  HIDDEN_BELOW,
  logitCall,
  logitsName,
  logitsPrologue,
  logitWgsl,
} from "./attention_logits.ts";
import { sliceLoader } from "./attention_shared.ts";
import { each } from "./each.ts";
import {
  HALF_WGSL,
  MATRIX_SUBGROUPS,
  matrixExecution,
  matrixThreads,
  type MatrixUnit,
  matrixUnitName,
} from "./matrix_tiles.ts";

/** What an attention kernel on matrix units is specialised to. */
export interface AttentionMatrixSpec {
  readonly unit: MatrixUnit;
  /** Elements per head, a multiple of 4. */
  readonly headDim: number;
  readonly logits: AttentionLogits;
}

/** Queries of a subgroup and of a workgroup. */
const OWN_ROWS = 16;
export const ATTENTION_MATRIX_ROWS = MATRIX_SUBGROUPS * OWN_ROWS;
/** Keys per step, and elements of the result that go through workgroup memory at a time. */
const KEYS = 32;
/** `vec4`s of a row of scores and weights, and from one row to the next: padded, so that rows lie in different banks. */
const WORDS = KEYS / 4;
const SCORE_STEP = WORDS + 1;
const WEIGHT_STEP = WORDS + 2;
/** Invocations that share a row in the softmax; neighbours, so that they are in one subgroup. */
const PER_ROW = 4;
/** Weights may grow to 2 to the power of this before the sums are scaled down; f16 holds them. */
const SLACK = "8.0";

/** Elements of a head in the tiles: whole matrices. */
function paddedDim(headDim: number): number {
  return roundUp(headDim, 16);
}

/** `vec4`s from one key or value to the next. */
function keyStep(headDim: number): number {
  return paddedDim(headDim) / 4 + 2;
}

/** Bytes of workgroup memory: keys or values, scores, weights, one factor per row, a flag. */
export function attentionMatrixBytes(headDim: number): number {
  return 8 * KEYS * keyStep(headDim) + ATTENTION_MATRIX_ROWS * (16 * SCORE_STEP + 8 * WEIGHT_STEP) +
    4 * ATTENTION_MATRIX_ROWS + 4;
}

/**
 * y = softmax(q · kᵀ) · v on matrix units: 64 queries by 32 keys at a time. Queries, keys, values and weights are f16,
 * scores, softmax and sums f32.
 *
 * q, y: [batch, lq, heads, headDim], k, v: [batch, lk, kv_heads, headDim]. Workgroup: four subgroups, each with 16 queries
 * and their sums as matrices; grid: lq / 64, heads, batch. A query that sees no key gives zeros.
 *
 * The online softmax cannot scale rows of a matrix. So a row's reference stays where it is until a logit exceeds it by
 * more than 8 (in powers of two), and only then do the sums go through workgroup memory to be scaled: weights up to 256
 * take its place, and after the first few steps this hardly ever happens.
 *
 * Of real cards remain to be measured: this against `attention_shared.ts`, 32 against 64 keys per step, 16 against 32
 * queries per subgroup, and the prefetch of keys.
 */
export function attentionMatrixKernel({ unit, headDim, logits }: AttentionMatrixSpec): Kernel {
  const { m, n, k } = unit;
  const threads = matrixThreads(unit);
  const words = headDim / 4;
  const dim = paddedDim(headDim);
  const step = keyStep(headDim);
  const rowMatrices = OWN_ROWS / m;
  const rowsAtOnce = threads / PER_ROW;
  const passes = ATTENTION_MATRIX_ROWS / rowsAtOnce;
  const strips = Math.ceil(dim / KEYS);
  const left = `subgroup_matrix_left<f16, ${k}, ${m}>`;
  const right = `subgroup_matrix_right<f16, ${n}, ${k}>`;
  const result = `subgroup_matrix_result<f32, ${n}, ${m}>`;
  const ownRow = (i: number) => `(own_row + ${i * m}u)`;
  /** The result's matrices with elements of strip `s`, by row and column of matrices. */
  const eachOf = (s: number, line: (i: number, j: number) => string) => {
    const first = s * KEYS / n;
    const count = Math.min(KEYS, dim - s * KEYS) / n;
    return each(rowMatrices, (i) => each(count, (j) => line(i, first + j)));
  };
  const stripAt = (i: number, j: number) => `${ownRow(i)} * ${SCORE_STEP}u + ${j * n % KEYS / 4}u`;
  const storeStrip = (s: number) =>
    eachOf(
      s,
      (i, j) =>
        `  subgroupMatrixStore<row_major>(&scores, ${stripAt(i, j)}, o${i}_${j}, ${SCORE_STEP}u);`,
    );
  const loadQueries = each(strips, (s) => {
    const chunks = Math.min(KEYS, dim - s * KEYS) / k;
    return `  for (var item = thread; item < ${
      ATTENTION_MATRIX_ROWS * WORDS
    }u; item = item + ${threads}u) {
    let start = q_start + min(row0 + item / ${WORDS}u, params.lq - 1u) * q_step;
    weights[item / ${WORDS}u * ${WEIGHT_STEP}u + item % ${WORDS}u] = half4(q_slice(start, ${
      s * WORDS
    }u + item % ${WORDS}u));
  }
  workgroupBarrier();
${
      each(rowMatrices, (i) =>
        each(chunks, (c) =>
          `  let q${i}_${s * KEYS / k + c} = subgroupMatrixLoad<${left}, row_major>(&weights, ${
            ownRow(i)
          } * ${WEIGHT_STEP}u + ${c * k / 4}u, ${WEIGHT_STEP}u);`))
    }
  workgroupBarrier();`;
  });
  const loadTile = (name: "k" | "v") =>
    `    for (var item = thread; item < ${KEYS * dim / 4}u; item = item + ${threads}u) {
      let start = kv_start + min(key0 + item / ${dim / 4}u, end - 1u) * kv_step;
      tile[item / ${dim / 4}u * ${step}u + item % ${
      dim / 4
    }u] = half4(${name}_slice(start, item % ${dim / 4}u));
    }`;
  // Loops over matrices, so that software adapters compile them in seconds; compilers of GPUs unroll them.
  const score = `    for (var j = 0u; j < ${KEYS / n}u; j = j + 1u) {
${each(rowMatrices, (i) => `      var s${i} = ${result}();`)}
${
    each(dim / k, (c) =>
      `      let k${c} = subgroupMatrixLoad<${right}, col_major>(&tile, j * ${n * step}u + ${
        c * k / 4
      }u, ${step}u);
${
        each(rowMatrices, (i) =>
          `      s${i} = subgroupMatrixMultiplyAccumulate(q${i}_${c}, k${c}, s${i});`)
      }`)
  }
${
    each(rowMatrices, (i) =>
      `      subgroupMatrixStore<row_major>(&scores, ${ownRow(i)} * ${SCORE_STEP}u + j * ${
        n / 4
      }u, s${i}, ${SCORE_STEP}u);`)
  }
    }`;
  const row = (pass: number) => `(thread / ${PER_ROW}u + ${pass * rowsAtOnce}u)`;
  const half = (pass: number, h: number) => {
    const word = `(thread % ${PER_ROW}u + ${h * PER_ROW}u)`;
    const parts = ["x", "y", "z", "w"].map((part, i) => {
      const key = `key0 + 4u * ${word} + ${i}u`;
      const logit = logitCall(
        logits,
        `d${h}.${part} * params.scale`,
        `row0 + ${row(pass)}`,
        `min(${key}, end - 1u)`,
      );
      return `        select(${HIDDEN}, ${logit}, ${key} < end)`;
    });
    return `      let d${h} = scores[${row(pass)} * ${SCORE_STEP}u + ${word}];
      let l${h} = vec4<f32>(
${parts.join(",\n")});`;
  };
  const weightOf = (pass: number, h: number) =>
    `      let w${h} = vec4<f16>(select(vec4<f32>(), exp2(l${h} - top${pass}), l${h} > vec4<f32>(${HIDDEN_BELOW})));
      weights[${row(pass)} * ${WEIGHT_STEP}u + thread % ${PER_ROW}u + ${h * PER_ROW}u] = w${h};`;
  const softmax = each(passes, (p) =>
    `    {
${half(p, 0)}
${half(p, 1)}
      let l = max(l0, l1);
      let best = row_max(max(max(l.x, l.y), max(l.z, l.w)));
      let is_first = top${p} <= ${HIDDEN_BELOW};
      let is_over = best > top${p} + ${SLACK};
      let fade = select(1.0, exp2(max(top${p} - best, -200.0)), is_over && !is_first);
      top${p} = select(top${p}, best, is_over);
${weightOf(p, 0)}
${weightOf(p, 1)}
      let w = vec4<f32>(w0) + vec4<f32>(w1);
      total${p} = total${p} * fade + (w.x + w.y + (w.z + w.w));
      row_factor[${row(p)}] = fade;
      if (fade < 1.0) { atomicStore(&must_scale, 1u); }
    }`);
  const rescale = each(strips, (s) =>
    `${storeStrip(s)}
      workgroupBarrier();
      for (var item = thread; item < ${ATTENTION_MATRIX_ROWS * WORDS}u; item = item + ${threads}u) {
        let at = item / ${WORDS}u * ${SCORE_STEP}u + item % ${WORDS}u;
        scores[at] = scores[at] * row_factor[item / ${WORDS}u];
      }
      workgroupBarrier();
${
      eachOf(s, (i, j) =>
        `      o${i}_${j} = subgroupMatrixLoad<${result}, row_major>(&scores, ${
          stripAt(i, j)
        }, ${SCORE_STEP}u);`)
    }
      workgroupBarrier();`);
  const weigh = `    for (var c = 0u; c < ${KEYS / k}u; c = c + 1u) {
${
    each(rowMatrices, (i) =>
      `      let w${i} = subgroupMatrixLoad<${left}, row_major>(&weights, ${
        ownRow(i)
      } * ${WEIGHT_STEP}u + c * ${k / 4}u, ${WEIGHT_STEP}u);`)
  }
${
    each(dim / n, (j) =>
      `      let v${j} = subgroupMatrixLoad<${right}, row_major>(&tile, c * ${k * step}u + ${
        j * n / 4
      }u, ${step}u);
${
        each(rowMatrices, (i) =>
          `      o${i}_${j} = subgroupMatrixMultiplyAccumulate(w${i}, v${j}, o${i}_${j});`)
      }`)
  }
    }`;
  const store = each(strips, (s) =>
    `${storeStrip(s)}
  workgroupBarrier();
  for (var item = thread; item < ${ATTENTION_MATRIX_ROWS * WORDS}u; item = item + ${threads}u) {
    let row = item / ${WORDS}u;
    let word = ${s * WORDS}u + item % ${WORDS}u;
    if (row0 + row < params.lq && word < ${words}u) {
      y_put(q_start + (row0 + row) * q_step + word, scores[row * ${SCORE_STEP}u + item % ${WORDS}u] * row_factor[row]);
    }
  }
  workgroupBarrier();`);
  return {
    name: `attention matrix d${headDim}${matrixUnitName(unit)}${logitsName(logits)}`,
    buffers: attentionBuffers(logits),
    params: attentionParams(logits),
    ...matrixExecution(unit),
    body: `${logitWgsl(logits)}
${HALF_WGSL}
${["q", "k", "v"].map((name) => sliceLoader(name, words)).join("\n")}
var<workgroup> tile: array<vec4<f16>, ${KEYS * step}>;
var<workgroup> scores: array<vec4<f32>, ${ATTENTION_MATRIX_ROWS * SCORE_STEP}>;
var<workgroup> weights: array<vec4<f16>, ${ATTENTION_MATRIX_ROWS * WEIGHT_STEP}>;
var<workgroup> row_factor: array<f32, ${ATTENTION_MATRIX_ROWS}>;
var<workgroup> must_scale: atomic<u32>;
fn row_max(own: f32) -> f32 {
  let pair = max(own, subgroupShuffleXor(own, 1u));
  return max(pair, subgroupShuffleXor(pair, 2u));
}
fn row_sum(own: f32) -> f32 {
  let pair = own + subgroupShuffleXor(own, 1u);
  return pair + subgroupShuffleXor(pair, 2u);
}
fn kernel(wg: vec3<u32>, local: vec3<u32>, subgroup: u32) {
  let thread = local.x;
  let row0 = wg.x * ${ATTENTION_MATRIX_ROWS}u;
  let own_row = subgroup * ${OWN_ROWS}u;
${logitsPrologue(logits, `row0 + ${ATTENTION_MATRIX_ROWS - 1}u`)}
  let kv_step = params.kv_heads * ${words}u;
  let kv_start = wg.z * params.lk * kv_step + kv_head * ${words}u;
  let q_step = params.heads * ${words}u;
  let q_start = wg.z * params.lq * q_step + wg.y * ${words}u;
${loadQueries}
${each(passes, (p) => `  var top${p} = ${HIDDEN};\n  var total${p} = 0.0;`)}
${each(rowMatrices, (i) => each(dim / n, (j) => `  var o${i}_${j} = ${result}();`))}
  for (var key0 = 0u; key0 < end; key0 = key0 + ${KEYS}u) {
${loadTile("k")}
    if (thread == 0u) { atomicStore(&must_scale, 0u); }
    workgroupBarrier();
${score}
    workgroupBarrier();
${loadTile("v")}
${softmax}
    if (workgroupUniformLoad(&must_scale) != 0u) {
${rescale}
    }
${weigh}
    workgroupBarrier();
  }
${
      each(passes, (p) =>
        `  let sum${p} = row_sum(total${p});
  row_factor[${row(p)}] = select(0.0, 1.0 / sum${p}, sum${p} > 0.0);`)
    }
${store}
}`,
  };
}
