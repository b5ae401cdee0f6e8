/** LTX-2's audio autoencoder and vocoders against the reference. */
import { strict as assert } from "node:assert";
import { cpSync } from "node:fs";
import { ltx2AudioDecoder, ltx2AudioEncoder } from "../../models/autoencoders/ltx2/audio_coder.ts";
import { LTX2_AUDIO_VAE_CONFIG, melRate } from "../../models/autoencoders/ltx2/audio_config.ts";
import { ltx2Vocoder } from "../../models/autoencoders/ltx2/vocoder.ts";
import {
  LTX2_VOCODERS_CONFIG,
  vocoderRate,
} from "../../models/autoencoders/ltx2/vocoder_config.ts";
import { parseConfig } from "../../models/config.ts";
import { openPipeline } from "../../models/mod.ts";
import { traceLtx2Sound } from "../../models/pipeline/ltx2_sound.ts";
import type { Work } from "../../models/pipeline/work.ts";
import type { Waveform } from "../../media/waveform.ts";
import { Weights, writing } from "../../runtime/mod.ts";
import { runSession } from "../support/coder_run.ts";
import { assertClose, Golden, transpose, type Values } from "../support/golden.ts";
import { withFolder } from "../support/safetensors.ts";
import { checkCalls, ModelRun, openTestDevice } from "../support/model_run.ts";

/** [batch, channels, frames, bands] of the reference to [batch, frames, bands, channels]. */
const TO_CHANNELS_LAST = [0, 2, 3, 1];
const TO_CHANNELS_FIRST = [0, 3, 1, 2];

for (const name of ["audio-tiny", "audio-wide"]) {
  const isSlow = name === "audio-wide";
  const title = `${name}${isSlow ? "; with DENOISE_SLOW" : ""}`;
  const ignore = isSlow && !Deno.env.has("DENOISE_SLOW");
  Deno.test(
    `ltx2AudioDecoder() and ltx2AudioEncoder() give the mel bands and latents of ${title}`,
    { ignore },
    async (t) => {
      const golden = new Golden(`ltx2_coders/${name}`);
      const config = parseConfig(LTX2_AUDIO_VAE_CONFIG, golden.config(), "config.json");
      using checkpoint = golden.checkpoint();
      const unused = await checkCalls(t, golden, checkpoint, async (device, weights, call) => {
        if (call.name === "encode") {
          const mel = transpose(golden.tensor("encode", "mel"), TO_CHANNELS_LAST);
          using run = await ModelRun.prepare(device, weights, { mel }, (graph, { mel }) => ({
            packed: ltx2AudioEncoder(graph, config, weights.root, mel!),
          }));
          await run.run();
          const { shape, data } = golden.tensor("encode", "packed");
          const expected = { shape: shape.slice(1), data };
          return assertClose(name, await run.read("packed"), expected, 1e-4);
        }
        const { shape, data } = golden.tensor("decode", "packed");
        const packed = { shape: shape.slice(1), data };
        using run = await ModelRun.prepare(device, weights, { packed }, (graph, { packed }) => ({
          mel: ltx2AudioDecoder(graph, config, weights.root, packed!),
        }));
        await run.run();
        const mel = transpose(await run.read("mel"), TO_CHANNELS_FIRST);
        assertClose(name, mel, golden.tensor("decode", "mel"), 1e-4);
      });
      assert.deepEqual(unused, []);
    },
  );
}

/** Decibels of a signal above its error. */
function signalToNoise(actual: Values, expected: Values): number {
  let [signal, noise] = [0, 0];
  for (let i = 0; i < expected.data.length; i++) {
    signal += expected.data[i]! ** 2;
    noise += (actual.data[i]! - expected.data[i]!) ** 2;
  }
  return 10 * Math.log10(signal / noise);
}

for (const name of ["vocoder-tiny", "vocoder-wide", "vocoder-extended"]) {
  Deno.test(`ltx2Vocoder() gives the sound of ${name}`, async (t) => {
    const golden = new Golden(`ltx2_coders/${name}`);
    const config = parseConfig(LTX2_VOCODERS_CONFIG, golden.config(), "config.json");
    using checkpoint = golden.checkpoint();
    const unused = await checkCalls(t, golden, checkpoint, async (device, weights) => {
      const mel = transpose(golden.tensor("waveform", "mel"), TO_CHANNELS_LAST);
      using run = await ModelRun.prepare(device, weights, { mel }, (graph, { mel }) => ({
        sound: ltx2Vocoder(graph, config, weights.root, mel!),
      }));
      await run.run();
      const sound = transpose(await run.read("sound"), [1, 0]);
      const { shape, data } = golden.tensor("waveform", "waveform");
      const expected = { shape: shape.slice(1), data };
      const decibels = signalToNoise(sound, expected);
      assert.ok(decibels > 80, `${decibels} dB`);
      assertClose(name, sound, expected, 2e-4);
    });
    // The way back from frequencies to sound, which the vocoder does not go.
    const idle = name === "vocoder-extended" ? ["mel_stft.stft_fn.inverse_basis"] : [];
    assert.deepEqual(unused, idle);
  });
}

Deno.test("traceLtx2Sound() gives both channels of the reference's sound of latents, with its rate", async () => {
  const device = await openTestDevice();
  const [audio, sound, golden] = ["audio-tiny", "vocoder-tiny", "sound"]
    .map((name) => new Golden(`ltx2_coders/${name}`)) as [Golden, Golden, Golden];
  using audioFile = audio.checkpoint();
  using vocoderFile = sound.checkpoint();
  const audioVae = {
    config: parseConfig(LTX2_AUDIO_VAE_CONFIG, audio.config(), "config.json"),
    weights: new Weights(audioFile),
  };
  const vocoder = {
    config: parseConfig(LTX2_VOCODERS_CONFIG, sound.config(), "config.json"),
    weights: new Weights(vocoderFile),
  };
  try {
    const { shape: [, frames], data } = golden.tensor("sound", "packed");
    let taken: Waveform | undefined;
    await runSession(
      device,
      { audioVae: audioVae.weights, vocoder: vocoder.weights },
      (session) => {
        const way = traceLtx2Sound(session, { audioVae, vocoder }, frames!);
        return async (work) => {
          const takeAudio = (audio: Waveform) => taken = audio;
          const own = Object.assign(work, { takeAudio }) as Pick<Work, "run" | "takeAudio">;
          await way.run(own, [writing(way.input, Float32Array.from(data))]);
        };
      },
    );
    const expected = golden.tensor("sound", "waveform");
    const { sampleRate, channels } = taken!;
    assert.equal(sampleRate, 6000);
    assert.deepEqual(channels.map(({ length }) => length), [17 * 60, 17 * 60]);
    const actual = {
      shape: expected.shape,
      data: Float32Array.from(channels.flatMap((channel) => [...channel])),
    };
    const decibels = signalToNoise(actual, expected);
    assert.ok(decibels > 80, `${decibels} dB`);
  } finally {
    audioVae.weights.destroy();
    vocoder.weights.destroy();
    device.destroy();
  }
});

Deno.test("a vocoder must make its sampling rate of the autoencoder's mel frames", async () => {
  const audio = LTX2_AUDIO_VAE_CONFIG.parse({});
  for (const _class_name of ["LTX2Vocoder", "LTX2VocoderWithBWE"]) {
    const published = LTX2_VOCODERS_CONFIG.parse({ _class_name });
    assert.equal(vocoderRate(published), melRate(audio), _class_name);
  }
  await withFolder({}, async (folder) => {
    const model = new Golden("ltx2/pipeline").folder;
    cpSync(model, folder, { recursive: true });
    const path = `${folder}/vocoder/config.json`;
    const config = JSON.parse(await Deno.readTextFile(path));
    await Deno.writeTextFile(path, JSON.stringify({ ...config, output_sampling_rate: 24_000 }));
    await assert.rejects(openPipeline(folder), {
      message:
        /mel frames of a second that the vocoder takes \(its sampling rate by upsample_factors\) .*400.*100/,
    });
  });
});
