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
  const each = (count: number, line: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => line(i)).join("\n");
  const softmax = (r: number) => {
    const sum = `d${r}.x + d${r}.y + (d${r}.z + d${r}.w)`;
    const power = `exp2(s${r} - next${r})`;
    return `    let s${r} = ${logitCall(logits, sum, `row + ${r * ATTENTION_LANES}u`, "key")};
    let next${r} = max(top${r}, s${r});
    let fade${r} = exp2(max(top${r} - next${r}, -200.0));
    let p${r} = ${canHideKeys(logits) ? `select(0.0, ${power}, s${r} > ${HIDDEN_BELOW})` : power};
    total${r} = total${r} * fade${r} + p${r};
    top${r} = next${r};`;
  };
  const load = (name: "k" | "v") =>
    broadcasts
      ? each(
        Math.ceil(words / ATTENTION_LANES),
        (i) =>
          `    let ${name}_lanes${i} = ${name}_at(at + min(${i * ATTENTION_LANES}u + local.x, ${
            words - 1
          }u));`,
      )
      : "";
  const word = (name: "k" | "v", c: number) =>
    broadcasts
      ? `subgroupBroadcast(${name}_lanes${Math.floor(c / ATTENTION_LANES)}, ${
        c % ATTENTION_LANES
      }u)`
      : `${name}_at(at + ${c}u)`;
  const products = (c: number) =>
    `    let k${c} = ${word("k", c)};\n` +
    each(rows, (r) => `    d${r} = fma(q${r}_${c}, k${c}, d${r});`);
  const sums = (c: number) =>
    `    let v${c} = ${word("v", c)};\n` +
    each(rows, (r) => `    o${r}_${c} = fma(vec4<f32>(p${r}), v${c}, o${r}_${c} * fade${r});`);
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
  for (var key = 0u; key < end; key = key + 1u) {
    let at = kv_start + key * kv_step;
${each(rows, (r) => `    var d${r} = vec4<f32>();`)}
${load("k")}
${load("v")}
${each(words, products)}
${each(rows, softmax)}
${each(words, sums)}
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
