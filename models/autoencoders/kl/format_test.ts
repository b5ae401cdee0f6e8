import { strict as assert } from "node:assert";
import { Golden } from "../../../tests/support/golden.ts";
import { toOurs } from "../../layouts.ts";
import { originalKlLayout } from "./format.ts";

/** How the original code names a module of a model of two levels. */
function originalName(name: string): string {
  return name
    .replace(/mid_block\.resnets\.(\d)/, (_, i) => `mid.block_${Number(i) + 1}`)
    .replace("mid_block.attentions.0", "mid.attn_1")
    .replace("group_norm", "norm").replace("to_out.0", "proj_out").replace(/to_([qkv])/, "$1")
    .replace(/down_blocks\.(\d)\.resnets/, "down.$1.block")
    .replace(/down_blocks\.(\d)\.downsamplers\.0/, "down.$1.downsample")
    .replace(/up_blocks\.(\d)\.resnets/, (_, i) => `up.${1 - Number(i)}.block`)
    .replace(/up_blocks\.(\d)\.upsamplers\.0/, (_, i) => `up.${1 - Number(i)}.upsample`)
    .replace("conv_shortcut", "nin_shortcut")
    .replace("conv_norm_out", "norm_out");
}

Deno.test("originalKlLayout() leads from every module of the original code to ours", () => {
  using checkpoint = new Golden("kl/flux2-tiny").checkpoint();
  const layout = originalKlLayout(2);
  const modules = new Set(
    [...checkpoint.names].map((name) => name.replace(/\.(weight|bias)$/, ""))
      .filter((name) => name !== "bn.num_batches_tracked"),
  );
  assert.ok(modules.size > 40);
  for (const name of modules) {
    const theirs = originalName(name);
    assert.deepEqual(toOurs(layout, theirs, 16), [{ name, start: 0, count: 16 }], theirs);
  }
  assert.equal(toOurs(layout, "encoder.quant_conv", 16)?.[0]?.name, "quant_conv");
  assert.equal(toOurs(layout, "decoder.post_quant_conv", 8)?.[0]?.name, "post_quant_conv");
});
