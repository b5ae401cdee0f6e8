import type { OpSuite } from "./conformance.ts";
import { ATTENTION_SUITE } from "./attention/cases.ts";
import { CAUSAL_CONV3D_SUITE, CONV2D_SUITE } from "./conv/cases.ts";
import { COMBINE_SUITE } from "./combine/cases.ts";
import { ELEMENTWISE_SUITE } from "./elementwise/cases.ts";
import { LINEAR_INT8_SUITE, LINEAR_SUITE } from "./linear/cases.ts";
import { MATMUL_SUITE } from "./matmul/cases.ts";
import { SOFTMAX_SUITE } from "./softmax/cases.ts";
import { GROUP_NORM_SUITE, LAYER_NORM_SUITE, RMS_NORM_SUITE } from "./norm/cases.ts";
import { GATHER_SUITE } from "./gather/cases.ts";
import { CONCAT_SUITE, PERMUTE_SUITE, SLICE_SUITE } from "./layout/cases.ts";
import { ROPE_SUITE } from "./rope/cases.ts";

/** Every op's case table. */
export const OP_SUITES: readonly OpSuite[] = [
  ELEMENTWISE_SUITE,
  COMBINE_SUITE,
  LINEAR_SUITE,
  LINEAR_INT8_SUITE,
  MATMUL_SUITE,
  SOFTMAX_SUITE,
  ATTENTION_SUITE,
  LAYER_NORM_SUITE,
  RMS_NORM_SUITE,
  GROUP_NORM_SUITE,
  ROPE_SUITE,
  GATHER_SUITE,
  CONCAT_SUITE,
  SLICE_SUITE,
  PERMUTE_SUITE,
  CONV2D_SUITE,
  CAUSAL_CONV3D_SUITE,
];
