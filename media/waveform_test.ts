import { strict as assert } from "node:assert";
import { encodeWav, fitWaveform } from "./waveform.ts";

const STEREO = {
  sampleRate: 8,
  channels: [new Float32Array([0, 0.5, 1, 2]), new Float32Array([0, -0.5, -1, -2])],
};

Deno.test("fitWaveform() cuts what is too long and lets silence follow what is too short", () => {
  const lengths = (seconds: number) => fitWaveform(STEREO, seconds).channels.map((c) => [...c]);
  assert.deepEqual(lengths(0.25), [[0, 0.5], [0, -0.5]]);
  assert.deepEqual(lengths(0.75), [[0, 0.5, 1, 2, 0, 0], [0, -0.5, -1, -2, 0, 0]]);
});

Deno.test("encodeWav() writes a header and clipped samples, channel by channel", () => {
  const bytes = encodeWav(STEREO);
  const view = new DataView(bytes.buffer);
  assert.equal(bytes.length, 44 + 4 * 2 * 2);
  assert.deepEqual(
    [view.getUint16(22, true), view.getUint32(24, true), view.getUint32(28, true)],
    [2, 8, 32],
  );
  const samples = Array.from({ length: 8 }, (_, i) => view.getInt16(44 + 2 * i, true));
  const half = Math.round(32767 / 2);
  assert.deepEqual(samples, [0, 0, half, 1 - half, 32767, -32767, 32767, -32767]);
});
