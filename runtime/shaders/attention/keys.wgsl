// Declares, for head wg.y of batch entry wg.z: where its rows begin and their steps, length (keys
// that are not cut off), end (keys that any of the queries up to LAST_ROW sees), and the last
// operands of logit().

//#param LAST_ROW: wgsl

let kv_head = wg.y / (params.heads / params.kv_heads);
let kv_step = params.kv_heads * WORDS;
let kv_start = wg.z * params.lk * kv_step + kv_head * WORDS;
let q_step = params.heads * WORDS;
let q_start = wg.z * params.lq * q_step + wg.y * WORDS;
//#if ASKS
var length = params.lk;
if (params.has_key_lengths != 0u) { length = min(length, key_lengths_at(wg.z)); }
//#elif KEY_LENGTHS
let length = min(params.lk, key_lengths_at(wg.z));
//#else
let length = params.lk;
//#endif
//#if CAUSAL
let reach = min(LAST_ROW, params.lq - 1u) + 1u + params.lk;
let end = min(length, select(0u, reach - params.lq, reach > params.lq));
//#else
let end = length;
//#endif
//#if BIAS
let bias_start = wg.z * params.bias_batch + wg.y * params.bias_head;
//#else
let bias_start = 0u;
//#endif
//#if ASKS
var last_bias = 0.0;
if (params.has_last_key_bias != 0u) { last_bias = last_key_bias_at(wg.z) * LOG2_E; }
//#elif LAST_KEY_BIAS
let last_bias = last_key_bias_at(wg.z) * LOG2_E;
//#else
let last_bias = 0.0;
//#endif
