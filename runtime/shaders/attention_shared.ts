import type { Kernel } from "./assemble.ts";
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
import { each } from "./each.ts";

/** What a shared-memory attention kernel is specialised to. */
export interface AttentionSharedSpec {
  /** Elements per head, a multiple of 4. */
  readonly headDim: number;
  readonly logits: AttentionLogits;
}

/** Queries per workgroup, keys per step, and elements of a head that lie in a tile at once. */
export const ATTENTION_TILE = 32;
/** Bytes of workgroup memory: three tiles and one value per row and column of invocations. */
export const ATTENTION_SHARED_BYTES = 3 * 32 * 9 * 16 + 32 * 8 * 4;

/** Invocations along each side of a workgroup. */
const THREADS = 8;
/** `vec4`s per row of a tile, and from one row to the next: odd, so that neighbouring rows lie in different banks. */
const WORDS = ATTENTION_TILE / 4;
const STRIDE = WORDS + 1;
/** Queries, and keys, per invocation. */
const SIDE = ATTENTION_TILE / THREADS;

/**
 * y = softmax(q · kᵀ) · v for GPUs: 32 queries by 32 keys at a time, online softmax, tiles in workgroup memory.
 *
 * q, y: [batch, lq, heads, headDim], k, v: [batch, lk, kv_heads, headDim].
 * Workgroup: 8 x 8 x 1, grid: lq / 32, heads, batch. Invocation (x, y) has queries y + 8i, keys 4x + j and
 * elements 4x … 4x+3 of every 32 of the result. A query that sees no key gives zeros.
 */
export function attentionSharedKernel(spec: AttentionSharedSpec): Kernel {
  const { headDim, logits } = spec;
  const words = headDim / 4;
  const chunks = Math.ceil(headDim / ATTENTION_TILE);
  // One invocation of 64 brings row thread / 8 + 8i, word thread % 8 of a tile.
  const queryRow = (i: number) => `thread / ${WORDS}u + ${i * THREADS}u`;
  const loadQueries = (first: string) =>
    each(SIDE, (i) => {
      const row = `(${queryRow(i)})`;
      return `    tile_q[${row} * ${STRIDE}u + thread % ${WORDS}u] = q_slice(q_start + min(row0 + ${row}, params.lq - 1u) * q_step, ${first} + thread % ${WORDS}u) * params.scale;`;
    });
  // Key 4x + j lies in row 8j + x, so that the invocations of a row read neighbouring rows.
  const loadKeys = each(SIDE, (i) => {
    const row = `(thread / ${WORDS}u + ${i * THREADS}u)`;
    const place = `((${row} % 4u) * ${THREADS}u + ${row} / 4u)`;
    return `      tile_kv[${place} * ${STRIDE}u + thread % ${WORDS}u] = k_slice(kv_start + min(key0 + ${row}, end - 1u) * kv_step, chunk * ${WORDS}u + thread % ${WORDS}u);`;
  });
  const loadValues = (chunk: number) =>
    each(SIDE, (i) => {
      const row = `(thread / ${WORDS}u + ${i * THREADS}u)`;
      return `    tile_kv[${row} * ${STRIDE}u + thread % ${WORDS}u] = v_slice(kv_start + min(key0 + ${row}, end - 1u) * kv_step, ${
        chunk * WORDS
      }u + thread % ${WORDS}u);`;
    });
  const products = [
    each(
      SIDE,
      (j) => `        let k${j} = tile_kv[(local.x + ${j * THREADS}u) * ${STRIDE}u + word];`,
    ),
    each(SIDE, (i) =>
      [
        `        let q${i} = tile_q[(local.y + ${i * THREADS}u) * ${STRIDE}u + word];`,
        each(SIDE, (j) => `        d${i}_${j} = d${i}_${j} + dot(q${i}, k${j});`),
      ].join("\n")),
  ].join("\n");
  const row = (i: number) => `(local.y + ${i * THREADS}u)`;
  const softmax = each(SIDE, (i) => {
    const slots = Array.from(
      { length: THREADS },
      (_, x) => `row_values[${row(i)} * ${THREADS}u + ${x}u]`,
    );
    return [
      `    let next${i} = ${slots.reduce((all, slot) => `max(${all}, ${slot})`, `top${i}`)};`,
      `    let fade${i} = exp2(max(top${i} - next${i}, -200.0));`,
      `    top${i} = next${i};`,
      `    let s${i} = vec4<f32>(s${i}_0, s${i}_1, s${i}_2, s${i}_3);`,
      `    let p${i} = select(vec4<f32>(), exp2(s${i} - next${i}), s${i} > vec4<f32>(${HIDDEN_BELOW}));`,
      `    total${i} = total${i} * fade${i} + (p${i}.x + p${i}.y + (p${i}.z + p${i}.w));`,
      `    tile_p[${row(i)} * ${STRIDE}u + local.x] = p${i};`,
      each(chunks, (c) => `    o${c}_${i} = o${c}_${i} * fade${i};`),
    ].join("\n");
  });
  const accumulate = (chunk: number) =>
    [
      each(4, (j) => `      let v${j} = tile_kv[(4u * word + ${j}u) * ${STRIDE}u + local.x];`),
      each(SIDE, (i) =>
        [
          `      let p${i} = tile_p[${row(i)} * ${STRIDE}u + word];`,
          each(
            4,
            (j) =>
              `      o${chunk}_${i} = fma(vec4<f32>(p${i}.${"xyzw"[j]}), v${j}, o${chunk}_${i});`,
          ),
        ].join("\n")),
    ].join("\n");
  const weigh = each(chunks, (c) =>
    `    // Elements ${c * ATTENTION_TILE} … of the values.
    workgroupBarrier();
${loadValues(c)}
    workgroupBarrier();
    for (var word = 0u; word < ${WORDS}u; word = word + 1u) {
${accumulate(c)}
    }`);
  const result = each(SIDE, (i) => {
    const slots = Array.from(
      { length: THREADS },
      (_, x) => `row_values[${row(i)} * ${THREADS}u + ${x}u]`,
    ).join(" + ");
    return `  if (row0 + ${row(i)} < params.lq) {
    let sum = ${slots};
    let norm = select(0.0, 1.0 / sum, sum > 0.0);
    let at = q_start + (row0 + ${row(i)}) * q_step + local.x;
${
      each(chunks, (c) =>
        `    if (${c * WORDS}u + local.x < ${words}u) { y_put(at + ${
          c * WORDS
        }u, o${c}_${i} * norm); }`)
    }
  }`;
  });
  return {
    name: `attention shared d${headDim}${logitsName(logits)}`,
    buffers: attentionBuffers(logits),
    params: attentionParams(logits),
    workgroupSize: [THREADS, THREADS, 1],
    body: `${logitWgsl(logits)}
${["q", "k", "v"].map((name) => sliceLoader(name, words)).join("\n")}
var<workgroup> tile_q: array<vec4<f32>, ${ATTENTION_TILE * STRIDE}>;
var<workgroup> tile_kv: array<vec4<f32>, ${ATTENTION_TILE * STRIDE}>;
var<workgroup> tile_p: array<vec4<f32>, ${ATTENTION_TILE * STRIDE}>;
var<workgroup> row_values: array<f32, ${ATTENTION_TILE * THREADS}>;
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let thread = local.y * ${THREADS}u + local.x;
  let row0 = wg.x * ${ATTENTION_TILE}u;
${logitsPrologue(logits, `row0 + ${ATTENTION_TILE - 1}u`)}
  let kv_step = params.kv_heads * ${words}u;
  let kv_start = wg.z * params.lk * kv_step + kv_head * ${words}u;
  let q_step = params.heads * ${words}u;
  let q_start = wg.z * params.lq * q_step + wg.y * ${words}u;
${each(SIDE, (i) => `  var top${i} = ${HIDDEN};\n  var total${i} = 0.0;`)}
${each(chunks, (c) => each(SIDE, (i) => `  var o${c}_${i} = vec4<f32>();`))}
${chunks === 1 ? loadQueries("0u") : ""}
  for (var key0 = 0u; key0 < end; key0 = key0 + ${ATTENTION_TILE}u) {
${each(SIDE, (i) => each(SIDE, (j) => `    var d${i}_${j} = 0.0;`))}
    for (var chunk = 0u; chunk < ${chunks}u; chunk = chunk + 1u) {
      workgroupBarrier();
${chunks === 1 ? "" : loadQueries(`chunk * ${WORDS}u`)}
${loadKeys}
      workgroupBarrier();
      for (var word = 0u; word < ${WORDS}u; word = word + 1u) {
${products}
      }
    }
    let key = key0 + 4u * local.x;
${
      each(SIDE, (i) =>
        [
          each(SIDE, (j) =>
            `    let s${i}_${j} = select(${HIDDEN}, ${
              logitCall(logits, `d${i}_${j}`, `row0 + ${row(i)}`, `min(key + ${j}u, end - 1u)`)
            }, key + ${j}u < end);`),
          `    row_values[${
            row(i)
          } * ${THREADS}u + local.x] = max(max(s${i}_0, s${i}_1), max(s${i}_2, s${i}_3));`,
        ].join("\n"))
    }
    workgroupBarrier();
${softmax}
${weigh}
  }
  workgroupBarrier();
${each(SIDE, (i) => `  row_values[${row(i)} * ${THREADS}u + local.x] = total${i};`)}
  workgroupBarrier();
${result}
}`,
  };
}

/** `NAME_slice(start, word)`: four elements of the head's row at `start`, zeros past its end. */
export function sliceLoader(name: string, words: number): string {
  const head = `fn ${name}_slice(start: u32, word: u32) -> vec4<f32>`;
  if (words % WORDS === 0) return `${head} { return ${name}_at(start + word); }`;
  return `${head} {
  return select(vec4<f32>(), ${name}_at(start + min(word, ${
    words - 1
  }u)), vec4<bool>(word < ${words}u));
}`;
}
