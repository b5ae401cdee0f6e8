import type { Kernel } from "./assemble.ts";
import {
  attentionBuffers,
  type AttentionLogits,
  attentionParams,
  canHideKeys,
  HIDDEN,
  HIDDEN_BELOW,
  logitCall,
  logitsName,
  logitsPrologue,
  logitWgsl,
} from "./attention_logits.ts";
import { each } from "./each.ts";

/** What a register-only attention kernel is specialised to. */
export interface AttentionRegistersSpec {
  /** Elements per head, a multiple of 4. */
  readonly headDim: number;
  /** Queries per invocation: software adapters pay for loads of keys and values, not for registers. */
  readonly rows: number;
  /** Lanes load one word of a key or value each and broadcast it: needs subgroups of exactly 8. */
  readonly broadcasts: boolean;
  readonly logits: AttentionLogits;
}

/** Invocations per workgroup: queries of one head, so that all read the same keys at the same time. */
export const ATTENTION_LANES = 8;
/** Largest head whose keys are taken several at a time by unrolled code; longer code would not fit the first cache. */
const MAX_UNROLLED_DIM = 64;

/**
 * y = softmax(q · kᵀ) · v for software adapters: online softmax in named registers, no workgroup memory.
 *
 * q, y: [batch, lq, heads, headDim], k, v: [batch, lk, kv_heads, headDim].
 * Workgroup: 8 x 1 x 1, grid: lq / (8 * rows), heads, batch; invocation x has queries x + 8r. A query that sees no
 * key gives zeros.
 */
export function attentionRegistersKernel(spec: AttentionRegistersSpec): Kernel {
  const { headDim, rows, broadcasts, logits } = spec;
  const words = headDim / 4;
  const isUnrolled = headDim <= MAX_UNROLLED_DIM;
  // Keys between two corrections of the sums for a new maximum.
  const block = !isUnrolled ? 8 : headDim <= 32 ? 4 : 2;
  const slots = Array.from({ length: block }, (_, i) => i);
  const last = block - 1;
  const reduce = (r: number, join: (a: string, b: string) => string, first: string) =>
    slots.reduce((all, i) => join(all, `s${r}_${i}`), first);
  const softmax = each(rows, (r) => {
    const power = (i: number) => `exp2(s${r}_${i} - next${r})`;
    return `    let next${r} = ${reduce(r, (a, b) => `max(${a}, ${b})`, `top${r}`)};
    let fade${r} = exp2(max(top${r} - next${r}, -200.0));
${
      slots.map((i) =>
        `    s${r}_${i} = ${
          canHideKeys(logits) ? `select(0.0, ${power(i)}, s${r}_${i} > ${HIDDEN_BELOW})` : power(i)
        };`
      ).join("\n")
    }
    total${r} = total${r} * fade${r} + (${reduce(r, (a, b) => `${a} + ${b}`, "0.0")});
    top${r} = next${r};
${each(words, (c) => `    o${r}_${c} = o${r}_${c} * fade${r};`)}`;
  });
  const logitOf = (r: number, sum: string, key: string) =>
    logitCall(logits, sum, `row + ${r * ATTENTION_LANES}u`, key);
  const load = (name: "k" | "v", at: string, suffix = "") =>
    broadcasts
      ? each(
        Math.ceil(words / ATTENTION_LANES),
        (i) =>
          `    let ${name}_lanes${suffix}_${i} = ${name}_at(${at} + min(${
            i * ATTENTION_LANES
          }u + local.x, ${words - 1}u));`,
      )
      : "";
  const word = (name: "k" | "v", c: number, at: string, suffix = "") =>
    broadcasts
      ? `subgroupBroadcast(${name}_lanes${suffix}_${Math.floor(c / ATTENTION_LANES)}, ${
        c % ATTENTION_LANES
      }u)`
      : `${name}_at(${at} + ${c}u)`;
  const eachSlot = (line: (i: number) => string) => slots.map(line).join("\n");
  const unrolled = () =>
    [
      eachSlot((i) =>
        `    let key${i} = min(key0 + ${i}u, end - 1u);
    let at${i} = kv_start + key${i} * kv_step;
${load("k", `at${i}`, `${i}`)}
${each(rows, (r) => `    var s${r}_${i} = 0.0;`)}`
      ),
      each(words, (c) =>
        eachSlot((i) =>
          [
            `    let k${c}_${i} = ${word("k", c, `at${i}`, `${i}`)};`,
            ...[..."xyzw"].map((part) =>
              each(rows, (r) =>
                `    s${r}_${i} = fma(q${r}_${c}.${part}, k${c}_${i}.${part}, s${r}_${i});`)
            ),
          ].join("\n")
        )),
      each(rows, (r) =>
        eachSlot((i) =>
          `    s${r}_${i} = select(${HIDDEN}, ${
            logitOf(r, `s${r}_${i}`, `key${i}`)
          }, key0 + ${i}u < end);`
        )),
      softmax,
      eachSlot((i) =>
        load("v", `at${i}`, `${i}`)
      ),
      each(words, (c) =>
        eachSlot((i) =>
          `    let v${c}_${i} = ${word("v", c, `at${i}`, `${i}`)};\n` +
          each(rows, (r) =>
            `    o${r}_${c} = fma(vec4<f32>(s${r}_${i}), v${c}_${i}, o${r}_${c});`)
        )),
    ].join("\n");
  // Logits enter the last slot, the first in; their weights leave from there, the last first.
  const looped = () =>
    `    let stop = min(key0 + ${block}u, end);
${each(rows, (r) => eachSlot((i) => `    var s${r}_${i} = ${HIDDEN};`))}
    for (var key = key0; key < stop; key = key + 1u) {
      let at = kv_start + key * kv_step;
${each(rows, (r) => `      var d${r} = vec4<f32>();`)}
${load("k", "at")}
${
      each(words, (c) =>
        `      let k${c} = ${word("k", c, "at")};\n` +
        each(rows, (r) => `      d${r} = fma(q${r}_${c}, k${c}, d${r});`))
    }
${
      each(rows, (r) =>
        [
          ...slots.slice(1).map((i) => `      s${r}_${i - 1} = s${r}_${i};`),
          `      s${r}_${last} = ${logitOf(r, `d${r}.x + d${r}.y + (d${r}.z + d${r}.w)`, "key")};`,
        ].join("\n"))
    }
    }
${softmax}
    for (var key = stop; key > key0; key = key - 1u) {
      let at = kv_start + (key - 1u) * kv_step;
${load("v", "at")}
${
      each(words, (c) =>
        `      let v${c} = ${word("v", c, "at")};\n` +
        each(rows, (r) => `      o${r}_${c} = fma(vec4<f32>(s${r}_${last}), v${c}, o${r}_${c});`))
    }
${
      each(
        rows,
        (r) => slots.slice(1).reverse().map((i) => `      s${r}_${i} = s${r}_${i - 1};`).join("\n"),
      )
    }
    }`;
  return {
    name: `attention registers${broadcasts ? " broadcast" : ""} d${headDim} x${rows}${
      logitsName(logits)
    }`,
    buffers: attentionBuffers(logits),
    params: attentionParams(logits),
    workgroupSize: [ATTENTION_LANES, 1, 1],
    body: `${logitWgsl(logits)}
fn kernel(wg: vec3<u32>, local: vec3<u32>) {
  let row0 = wg.x * ${ATTENTION_LANES * rows}u;
  let row = row0 + local.x;
${logitsPrologue(logits, `row0 + ${ATTENTION_LANES * rows - 1}u`)}
  let kv_step = params.kv_heads * ${words}u;
  let kv_start = wg.z * params.lk * kv_step + kv_head * ${words}u;
  let q_step = params.heads * ${words}u;
  let q_start = wg.z * params.lq * q_step + wg.y * ${words}u;
${
      each(rows, (r) =>
        [
          `  let start${r} = q_start + min(row + ${
            r * ATTENTION_LANES
          }u, params.lq - 1u) * q_step;`,
          `  var top${r} = ${HIDDEN};\n  var total${r} = 0.0;`,
          each(
            words,
            (c) =>
              `  let q${r}_${c} = q_at(start${r} + ${c}u) * params.scale;\n  var o${r}_${c} = vec4<f32>();`,
          ),
        ].join("\n"))
    }
  for (var key0 = 0u; key0 < end; key0 = key0 + ${block}u) {
${isUnrolled ? unrolled() : looped()}
  }
${
      each(rows, (r) =>
        `  if (row + ${r * ATTENTION_LANES}u < params.lq) {
    let norm = select(0.0, 1.0 / total${r}, total${r} > 0.0);
${each(words, (c) => `    y_put(start${r} + ${c}u, o${r}_${c} * norm);`)}
  }`)
    }
}`,
  };
}
