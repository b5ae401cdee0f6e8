/** T2I-Adapters as TencentARC publishes them: all names and shapes, without their numbers. */
import assert from "node:assert/strict";
import { LARGE, repeated, type Shapes } from "../../../tests/support/published_shapes.ts";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { DeviceTensor, Graph, Weights } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { parseConfig } from "../../config.ts";
import { T2I_ADAPTER_CONFIG } from "./control_config.ts";
import { SD_FILES } from "./layouts.ts";
import { adapterFeatures } from "./t2i_adapter.ts";

function conv(name: string, rows: number, columns: number, side = 3): Shapes {
  return { [`${name}.weight`]: [rows, columns, side, side], [`${name}.bias`]: [rows] };
}

/** An adapter under the names of TencentARC. */
function adapter(side: number, channels: number): Shapes {
  const widths = [320, 640, 1280, 1280];
  return {
    ...conv("conv_in", 320, channels * side ** 2),
    ...repeated(8, (i) => {
      const [width, before] = [widths[i >> 1]!, widths[(i >> 1) - 1] ?? 320];
      return {
        ...i % 2 === 0 && width !== before ? conv(`body.${i}.in_conv`, width, before, 1) : {},
        ...conv(`body.${i}.block1`, width, width),
        ...conv(`body.${i}.block2`, width, width, 1),
      };
    }),
  };
}

function lightAdapter(): Shapes {
  const widths = [320, 640, 1280, 1280];
  return repeated(4, (i) => {
    const inside = widths[i]! / 4;
    return {
      ...conv(`body.${i}.in_conv`, inside, widths[i - 1] ?? 192, 1),
      ...conv(`body.${i}.out_conv`, widths[i]!, inside, 1),
      ...repeated(4, (j) => ({
        ...conv(`body.${i}.body.${j}.block1`, inside, inside),
        ...conv(`body.${i}.body.${j}.block2`, inside, inside),
      })),
    };
  });
}

Deno.test("all tensors of T2I-Adapters are known and used, and their configurations are the published ones", () => {
  const files = [
    [adapter(8, 1), 4, { in_channels: 1, downscale_factor: 8, adapter_type: "full_adapter" }, 0],
    [adapter(8, 3), 4, { in_channels: 3, downscale_factor: 8, adapter_type: "full_adapter" }, 0],
    // SDXL has three levels.
    [
      adapter(16, 3),
      3,
      { in_channels: 3, downscale_factor: 16, adapter_type: "full_adapter_xl" },
      8,
    ],
    [lightAdapter(), 4, { in_channels: 3, downscale_factor: 8, adapter_type: "light_adapter" }, 0],
  ] as const;
  for (const [shapes, levels, expected, unused] of files) {
    const [found] = recognise(memoryTensors(shapes), SD_FILES.formats);
    const { format, tensors } = found!;
    const config = format.config(tensors);
    const parsed = parseConfig(T2I_ADAPTER_CONFIG, config, "");
    assert.deepEqual({ ...parsed, ...expected }, parsed);
    assert.deepEqual(parsed.channels, [320, 640, 1280, 1280]);
    const weights = new Weights(tensors);
    const graph = new Graph("model", LARGE);
    const pixels = graph.use(new DeviceTensor("pixels", [1, 128, 192, 3], "f32"));
    const features = adapterFeatures(parsed, weights.root, pixels, levels);
    assert.deepEqual(features.at(-1)!.shape, levels === 4 ? [1, 2, 3, 1280] : [1, 4, 6, 1280]);
    assert.equal(weights.unused.length, unused);
  }
});
