/** From sound to latents and from these to samples, by LTX-2's audio autoencoder and its vocoder. */
import { type Call, type DeviceTensor, f32, type Weights } from "../../runtime/mod.ts";
import { audioFeatures, type Ltx2AudioVaeConfig } from "../autoencoders/ltx2/audio_config.ts";
import { ltx2AudioDecoder, ltx2AudioEncoder } from "../autoencoders/ltx2/audio_coder.ts";
import { melBands, melFrames } from "../autoencoders/ltx2/mel_bands.ts";
import type { Ltx2VocoderConfig } from "../autoencoders/ltx2/vocoder_config.ts";
import { ltx2Vocoder } from "../autoencoders/ltx2/vocoder.ts";
import type { Session, Stage } from "../memory/session.ts";
import type { Work } from "./work.ts";

interface Ltx2SoundParts {
  readonly audioVae: { readonly config: Ltx2AudioVaeConfig; readonly weights: Weights };
  readonly vocoder: { readonly config: Ltx2VocoderConfig; readonly weights: Weights };
}

interface Ltx2Sound {
  /** Programs that fill `input` belong to it. */
  readonly stage: Stage;
  /** Latents as the transformer has them, normalised and packed: [frames, features]. */
  readonly input: DeviceTensor;
  /** Gives the sound to `work`, before frames; `first` are calls that fill `input`. */
  run(work: Pick<Work, "run" | "takeAudio">, first?: readonly Call[]): Promise<void>;
}

/** Traces the way of `frames` latent frames to sound; it must run before frames are decoded. */
export function traceLtx2Sound(
  session: Session,
  { audioVae, vocoder }: Ltx2SoundParts,
  frames: number,
): Ltx2Sound {
  const stage = session.stage("decode", { name: "sound" });
  const input = stage.tensor("sound latents", [frames, audioFeatures(audioVae.config)]);
  // Sound is quiet work: what f16 rounds off would be heard.
  const program = stage.program("sound", { packed: input }, ({ packed }, graph) => {
    const mel = ltx2AudioDecoder(graph, audioVae.config, audioVae.weights.root, packed);
    return ltx2Vocoder(graph, vocoder.config, vocoder.weights.root, mel);
  }, { operands: "f32" });
  stage.willRead(program.outputs);
  return {
    stage,
    input,
    run: (work, first = []) =>
      work.run([...first, program.call({})], {
        reads: [program.outputs],
        finished: ([samples]) => {
          const [length, count] = program.outputs.shape as [number, number];
          const channels = Array.from(
            { length: count },
            (_, c) => Float32Array.from({ length }, (_, i) => samples![i * count + c]!),
          );
          work.takeAudio({ sampleRate: vocoder.config.output_sampling_rate, channels });
        },
      }),
  };
}

/** What a model hears. */
interface Ltx2Hearing {
  /** Normalised and packed: [frames, features]; complete when `run` is. */
  readonly latents: DeviceTensor;
  run(work: Work): Promise<void>;
}

/** Traces the way of the sound that a request gives to so many latent frames. */
export function traceLtx2Hearing(
  session: Session,
  { audioVae: { config, weights } }: Pick<Ltx2SoundParts, "audioVae">,
  size: { readonly latents: number; readonly seconds: number },
): Ltx2Hearing {
  const stage = session.stage("encode", { name: "encode sound" });
  session.encodeSteps++;
  const shape = [1, melFrames(size.latents), config.mel_bins, config.in_channels];
  const program = stage.program(
    "encode sound",
    { mel: f32(...shape) },
    ({ mel }, graph) => ltx2AudioEncoder(graph, config, weights.root, mel),
    { operands: "f32" },
  );
  return {
    latents: program.outputs,
    run: (work) =>
      work.run([program.call({ mel: melBands(work.request.audio!, config, size).data })], {
        finished: () => work.encodeDone(),
      }),
  };
}
