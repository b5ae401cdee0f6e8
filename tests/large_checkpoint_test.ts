/** Checkpoints of several GB go to the device in pieces. */
import assert from "node:assert/strict";
import { Checkpoint, Graph, openDevice, Weights } from "../runtime/mod.ts";
import { encodeGguf } from "./support/gguf.ts";

/** Writes a safetensors file whose data are zeros: sparse, so it takes no room on disk. */
function writeSparse(path: string, tensors: Record<string, number[]>): void {
  let offset = 0;
  const header: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(tensors)) {
    const bytes = shape.reduce((a, b) => a * b) * 2;
    header[name] = { dtype: "F16", shape, data_offsets: [offset, offset + bytes] };
    offset += bytes;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const head = new Uint8Array(8 + text.length);
  new DataView(head.buffer).setBigUint64(0, BigInt(text.length), true);
  head.set(text, 8);
  Deno.writeFileSync(path, head);
  Deno.truncateSync(path, head.length + offset);
}

Deno.test({
  name: "Weights.upload() of a 2 GB checkpoint keeps JavaScript memory below 200 MB (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  async fn() {
    const folder = Deno.makeTempDirSync();
    writeSparse(`${folder}/model.safetensors`, {
      "embedding": [262_144, 3072],
      "layer.0": [4096, 8192],
      "layer.1": [4096, 65_536],
    });
    const device = await openDevice();
    try {
      using checkpoint = Checkpoint.open(folder);
      assert.ok(checkpoint.byteLength > 2e9);
      const weights = new Weights(checkpoint);
      const graph = new Graph("declare", device.target);
      weights.root.tensor(graph, "embedding", [262_144, 3072]);
      weights.root.tensor(graph, "layer.0", [4096, 8192]);
      weights.root.tensor(graph, "layer.1", [4096, 65_536]);
      let worst = 0;
      await weights.upload(device, () => {
        const { heapUsed, external } = Deno.memoryUsage();
        worst = Math.max(worst, heapUsed + external);
      });
      assert.equal(device.allocatedBytes, weights.byteLength);
      assert.ok(worst < 200e6, `JavaScript held ${Math.round(worst / 1e6)} MB`);
      weights.destroy();
    } finally {
      device.destroy();
      Deno.removeSync(folder, { recursive: true });
    }
  },
});

Deno.test({
  name:
    "Weights.upload() of a 3 GB GGUF file of mixed types keeps JavaScript memory below 200 MB (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  async fn() {
    const folder = Deno.makeTempDirSync();
    // Q4_K, Q6_K, Q8_0 and F16: number of the type, bytes per element.
    const tensors = [
      ["layer.0", 12, [16_384, 65_536], 144 / 256],
      ["layer.1", 14, [16_384, 65_536], 210 / 256],
      ["layer.2", 8, [16_384, 32_768], 34 / 32],
      ["layer.3", 1, [16_384, 32_768], 2],
    ] as const;
    let offset = 0;
    const infos = tensors.map(([name, type, shape, bytes]) => {
      const info = [name, { type, shape, offset: BigInt(offset) }] as const;
      offset += shape[0] * shape[1] * bytes;
      return info;
    });
    const path = `${folder}/model.gguf`;
    const head = encodeGguf({ tensors: infos });
    Deno.writeFileSync(path, head);
    Deno.truncateSync(path, head.length + offset);
    const device = await openDevice();
    try {
      using checkpoint = Checkpoint.open(path);
      assert.ok(checkpoint.byteLength > 3e9);
      let worst = 0;
      // One after the other, as they are streamed: all at once need not fit into this machine.
      for (const [name, , shape] of tensors) {
        const weights = new Weights(checkpoint);
        weights.root.tensor(new Graph("declare", device.target), name, shape);
        await weights.upload(device);
        const { heapUsed, external } = Deno.memoryUsage();
        worst = Math.max(worst, heapUsed + external);
        assert.ok(device.allocatedBytes < 1.01 * checkpoint.find(name)!.byteLength + 1024);
        weights.destroy();
      }
      assert.ok(worst < 200e6, `JavaScript held ${Math.round(worst / 1e6)} MB`);
    } finally {
      device.destroy();
      Deno.removeSync(folder, { recursive: true });
    }
  },
});
