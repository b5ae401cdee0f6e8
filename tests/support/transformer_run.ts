/** Transformers of images against the reference: small ones whose widths fill no vector. */
import assert from "node:assert/strict";
import type { z } from "zod";
import type { Layout } from "../../models/layouts.ts";
import { viewLayout } from "../../models/checkpoints/layout_view.ts";
import { parseConfig } from "../../models/config.ts";
import type { Graph, Tensor, WeightScope } from "../../runtime/mod.ts";
import { assertClose, Golden, type GoldenCall } from "./golden.ts";
import { checkCalls, ModelRun } from "./model_run.ts";

/** A call while it is traced. */
export interface TracedCall {
  readonly graph: Graph;
  readonly weights: WeightScope;
  /** As the golden has them. */
  readonly latents: Tensor;
  readonly states: Tensor;
  /** The second one, to see that a step finds its own row of the tables. */
  readonly step: Tensor;
  readonly args: GoldenCall["args"];
}

/** The size of latents that lie as tokens. */
export function gridOf(args: GoldenCall["args"]): { rows: number; columns: number } {
  return { rows: args["rows"] as number, columns: args["columns"] as number };
}

/**
 * Checks the outputs of all calls of a golden, and that every weight is used.
 *
 * @param layout of the golden's names, where they are not ours
 */
export async function checkTransformer<Schema extends z.ZodType>(
  t: Deno.TestContext,
  name: string,
  schema: Schema,
  trace: (config: z.output<Schema>, call: TracedCall) => Tensor,
  layout?: Layout,
): Promise<void> {
  const golden = new Golden(name);
  using checkpoint = golden.checkpoint();
  const config = parseConfig(schema, golden.config(), "config.json");
  const source = layout ? viewLayout(checkpoint, layout) : checkpoint;
  const unused = await checkCalls(t, golden, source, async (device, weights, { name, args }) => {
    const inputs = {
      latents: golden.tensor(name, "latents"),
      states: golden.tensor(name, "states"),
      step: { shape: [1], data: [1], dtype: "u32" as const },
    };
    using run = await ModelRun.prepare(device, weights, inputs, (graph, tensors) => {
      const { latents, states, step } = tensors as Record<keyof typeof inputs, Tensor>;
      const call = { graph, weights: weights.root, latents, states, step, args };
      return { output: trace(config, call) };
    });
    await run.run();
    assertClose(name, await run.read("output"), golden.tensor(name, "output"), 2e-4);
  });
  assert.deepEqual(unused, []);
}
