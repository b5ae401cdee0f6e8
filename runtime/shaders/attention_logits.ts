/** What happens to a query-key product before the softmax, shared by the attention kernels. */
import type { BufferSlot, ParamType } from "./assemble.ts";

/** Which logits are changed or hidden; those left out cost nothing. */
export interface AttentionLogits {
  /** Key j is seen by query i only when j <= i + lk - lq. */
  readonly causal: boolean;
  /** f32 [1|batch, 1|heads, lq, lk], added. */
  readonly bias: boolean;
  /** u32 [1|batch, 1|heads, 1|lq, lk], 0 hides the key. */
  readonly mask: boolean;
  /** u32 [batch], keys from there on are hidden. */
  readonly keyLengths: boolean;
  /** f32 [batch], added for the last key that is not cut off by `keyLengths`. */
  readonly lastKeyBias: boolean;
}

/** Stands for the logit of a hidden key. */
export const HIDDEN = "-3.0e38";
/** Logits at or below this count as hidden, so that a bias of minus infinity hides too. */
export const HIDDEN_BELOW = "-1.0e30";

/** True when a key may be hidden from some query although it lies before the end of the loop over keys. */
export function canHideKeys({ causal, bias, mask }: AttentionLogits): boolean {
  return causal || bias || mask;
}

/** The features in use, for the name of a kernel. */
export function logitsName(logits: AttentionLogits): string {
  const names = ["causal", "bias", "mask", "keyLengths", "lastKeyBias"] as const;
  return names.filter((name) => logits[name]).map((name) => ` ${name}`).join("");
}

/** q, k, v, what the features read, and the result `y`. */
export function attentionBuffers(logits: AttentionLogits): BufferSlot[] {
  const features = [
    logits.bias && "bias",
    logits.mask && "mask",
    logits.keyLengths && "key_lengths",
    logits.lastKeyBias && "last_key_bias",
  ].filter((name) => name !== false);
  return [
    ...["q", "k", "v"].map((name): BufferSlot => ({ name, access: "read", width: 4 })),
    ...features.map((name): BufferSlot => ({ name, access: "read", width: 1 })),
    { name: "y", access: "read_write", width: 4 },
  ];
}

/** Parameters: sizes, `scale` times log2(e), and strides in elements (0 where broadcast). */
export function attentionParams(logits: AttentionLogits): Record<string, ParamType> {
  return {
    lq: "u32",
    lk: "u32",
    heads: "u32",
    kv_heads: "u32",
    scale: "f32",
    ...(logits.bias ? { bias_batch: "u32", bias_head: "u32" } : {}),
    ...(logits.mask ? { mask_batch: "u32", mask_head: "u32", mask_row: "u32" } : {}),
  };
}

/**
 * Declares, for head `wg.y` of batch `wg.z`: `kv_head`, `length` (keys not cut off), `end` (keys that any of the
 * queries up to `lastRow` sees), and the operands of `logit`.
 */
export function logitsPrologue(logits: AttentionLogits, lastRow: string): string {
  const lines = [
    "let kv_head = wg.y / (params.heads / params.kv_heads);",
    logits.keyLengths
      ? "let length = min(params.lk, key_lengths_at(wg.z));"
      : "let length = params.lk;",
  ];
  if (logits.causal) {
    lines.push(
      `let reach = min(${lastRow}, params.lq - 1u) + 1u + params.lk;`,
      "let end = min(length, select(0u, reach - params.lq, reach > params.lq));",
    );
  } else lines.push("let end = length;");
  if (logits.bias) {
    lines.push("let bias_start = wg.z * params.bias_batch + wg.y * params.bias_head;");
  }
  if (logits.mask) {
    lines.push("let mask_start = wg.z * params.mask_batch + wg.y * params.mask_head;");
  }
  if (logits.lastKeyBias) lines.push("let last_bias = last_key_bias_at(wg.z) * LOG2_E;");
  return lines.map((line) => `  ${line}`).join("\n");
}

/** `logit(sum, row, key, …)` as it is called after {@linkcode logitsPrologue}. */
export function logitCall(logits: AttentionLogits, sum: string, row: string, key: string): string {
  const operands = [
    logits.bias && "bias_start",
    logits.mask && "mask_start",
    logits.lastKeyBias && "length, last_bias",
  ].filter((operand) => operand !== false);
  return `logit(${[sum, row, key, ...operands].join(", ")})`;
}

/** `fn logit`: from a scaled product to a logit, in units of log2(e); HIDDEN for keys that the query does not see. */
export function logitWgsl(logits: AttentionLogits): string {
  const operands = [
    logits.bias && "bias_start: u32",
    logits.mask && "mask_start: u32",
    logits.lastKeyBias && "length: u32, last_bias: f32",
  ].filter((operand) => operand !== false);
  const steps = [
    logits.lastKeyBias && "s = s + select(0.0, last_bias, key + 1u == length);",
    logits.bias &&
    "s = s + bias_at(bias_start + min(row, params.lq - 1u) * params.lk + key) * LOG2_E;",
    logits.causal && `s = select(${HIDDEN}, s, key + params.lq <= row + params.lk);`,
    logits.mask &&
    `s = select(${HIDDEN}, s, mask_at(mask_start + min(row, params.lq - 1u) * params.mask_row + key) != 0u);`,
  ].filter((step) => step !== false);
  return `const LOG2_E = 1.4426950408889634;
fn logit(${["sum: f32", "row: u32", "key: u32", ...operands].join(", ")}) -> f32 {
  var s = sum;
  ${steps.join("\n  ")}
  return s;
}`;
}
