/** Every op: what suites, doctor, tuning run and benches read. */
import { ATTENTION } from "./attention/op.ts";
import { COMBINE_SUITE } from "./combine/cases.ts";
import type { OpSuite } from "../conformance.ts";
import { CAUSAL_CONV3D, CONV2D } from "./conv/op.ts";
import { ELEMENTWISE_SUITE } from "./elementwise/cases.ts";
import { GATHER_CHECKS, GATHER_SUITE } from "./gather/cases.ts";
import { CONCAT_SUITE, PERMUTE_SUITE, SLICE_SUITE } from "./layout/cases.ts";
import { LINEAR } from "./linear/op.ts";
import { MATMUL } from "./matmul/op.ts";
import { MERGE_SUITE } from "./merge/cases.ts";
import { GROUP_NORM, LAYER_NORM, RMS_NORM } from "./norm/op.ts";
import type { Op, Race } from "./op.ts";
import { ROPE_SUITE } from "./rope/cases.ts";
import { RESIZE_SUITE, WARP_SUITE } from "./sample/cases.ts";
import { SOFTMAX } from "./softmax/op.ts";

/** All ops; those that take most of models' time first, as a tuning run does them. */
export const OPS: readonly Op[] = [
  LINEAR,
  ATTENTION,
  CAUSAL_CONV3D,
  CONV2D,
  LAYER_NORM,
  RMS_NORM,
  GROUP_NORM,
  SOFTMAX,
  MATMUL,
  { name: "gather", suites: [GATHER_SUITE], checks: GATHER_CHECKS },
  { name: "elementwise", suites: [ELEMENTWISE_SUITE] },
  { name: "combine", suites: [COMBINE_SUITE] },
  { name: "rope", suites: [ROPE_SUITE] },
  { name: "concat", suites: [CONCAT_SUITE] },
  { name: "slice", suites: [SLICE_SUITE] },
  { name: "permute", suites: [PERMUTE_SUITE] },
  { name: "merge", suites: [MERGE_SUITE] },
  { name: "resize", suites: [RESIZE_SUITE] },
  { name: "warp", suites: [WARP_SUITE] },
];

export const OP_SUITES: readonly (OpSuite & { readonly op: string })[] = OPS.flatMap((
  { name, suites },
) => suites.map((suite) => ({ op: name, ...suite })));

/** All races, in the order in which a tuning run does them. */
export const RACES: readonly Race[] = OPS.flatMap(({ name, races = [] }) =>
  races.map((race) => ({ op: name, ...race }))
).toSorted((a, b) => a.priority - b.priority);
