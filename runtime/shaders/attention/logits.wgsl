// What every attention kernel reads and writes, and what happens to a query-key product before the
// softmax.

//#param HEAD_DIM: u32 // elements per head, a multiple of 4
//#param CAUSAL: bool = false // key j is seen by query i only when j <= i + lk - lq
//#param BIAS: bool = false // added to the logits
//#param KEY_LENGTHS: bool = false // keys from there on are hidden
//#param LAST_KEY_BIAS: bool = false // added for the last key that is not cut off by the lengths
//#param ASKS: bool = false // both are bound whether there are any or not, and the dispatch says so

//#let WORDS = HEAD_DIM / 4
//#buffer read       q             4 // [batch, lq, heads, HEAD_DIM]
//#buffer read       k             4 // [batch, lk, kv_heads, HEAD_DIM]
//#buffer read       v             4 // likewise
//#if BIAS
//#buffer read       bias          1 // [1|batch, 1|heads, lq, lk]
//#endif
//#if KEY_LENGTHS
//#buffer read       key_lengths   1 // u32 [batch]
//#endif
//#if LAST_KEY_BIAS
//#buffer read       last_key_bias 1 // [batch]
//#endif
//#buffer read_write y             4 // [batch, lq, heads, HEAD_DIM]
//#uniform lq: u32
//#uniform lk: u32
//#uniform heads: u32
//#uniform kv_heads: u32
//#uniform scale: f32 // of the products, times log2(e)
//#if ASKS
//#uniform has_key_lengths: u32
//#uniform has_last_key_bias: u32
//#endif
//#if BIAS
//#uniform bias_batch: u32 // strides in elements, 0 where broadcast
//#uniform bias_head: u32
//#endif

const LOG2_E = 1.4426950408889634;
// Stands for the logit of a hidden key. What lies below LOWEST hides, too: a bias of minus infinity. LOWEST is where
// the maximum of a query begins, so that the weight exp2(logit - maximum) of a hidden key is zero.
const HIDDEN = -3.0e38;
const LOWEST = -0.9999999e30;

// Whether key j is early enough for query i, where that counts.
fn sees(row: u32, key: u32) -> bool {
  return key + params.lq <= row + params.lk;
}

// From a scaled product to a logit, in units of log2(e); HIDDEN for keys that the query does not
// see. What follows the key comes from attention/keys.wgsl.
fn logit(sum: f32, row: u32, key: u32, is_seen: bool, bias_start: u32, length: u32, last_bias: f32) -> f32 {
  var s = sum;
  //#if LAST_KEY_BIAS
  s = s + select(0.0, last_bias, key + 1u == length);
  //#endif
  //#if BIAS
  s = s + bias_at(bias_start + min(row, params.lq - 1u) * params.lk + key) * LOG2_E;
  //#endif
  //#if CAUSAL
  s = select(HIDDEN, s, is_seen);
  //#endif
  return s;
}
