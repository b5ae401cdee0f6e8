/** The components of an LTX-2 model, what its models can do, and defaults: those of diffusers. */
import { z } from "zod";
import {
  audioFeatures,
  audioRate,
  LTX2_AUDIO_VAE_CONFIG,
  melRate,
} from "../../autoencoders/ltx2/audio_config.ts";
import { hasSide } from "../../autoencoders/require_encoder.ts";
import {
  LTX2_LATENT_UPSAMPLER_CONFIG,
  upsamplerScale,
} from "../../autoencoders/ltx2/latent_upsampler.ts";
import { LTX2_VIDEO_VAE_CONFIG, ltx2Scale } from "../../autoencoders/ltx2/video_config.ts";
import { LTX2_VOCODERS_CONFIG, vocoderRate } from "../../autoencoders/ltx2/vocoder_config.ts";
import {
  optionalPart,
  type PartsOf,
  partsTable,
  sameSizes,
  type SizeCheck,
} from "../../pipeline/components.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import { FlowMatchEulerScheduler, SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { GEMMA3_CLASSES, GEMMA3_CONFIG } from "../../text_encoders/gemma3_config.ts";
import { LTX2_CONNECTORS_CONFIG, LTX2_TRANSFORMER_CONFIG, projectedWidth } from "./config.ts";
import { CONTINUED_FRAMES } from "./given.ts";
import { DISTILLED_SIGMAS } from "./schedule.ts";
import { DEFAULT_RESCALE } from "./guidance.ts";

/** Tokens of a prompt, with the registers that fill it up. */
const PROMPT_TOKENS = 1024;
const FPS = 24;
/** Every image but the first costs the tokens of a latent frame. */
const MAX_IMAGES = 8;
/** Source: diffusers `DEFAULT_IMAGE_CRF`. */
const IMAGE_CRF = 33;

const TRANSFORMER = {
  classNames: ["LTX2VideoTransformer3DModel"],
  config: LTX2_TRANSFORMER_CONFIG,
} as const;

export const LTX2_PARTS = partsTable({
  components: {
    textEncoder: { classNames: GEMMA3_CLASSES, config: GEMMA3_CONFIG },
    connectors: { classNames: ["LTX2TextConnectors"], config: LTX2_CONNECTORS_CONFIG },
    transformer: TRANSFORMER,
    /** That of the second of two stages, where it is another one, or has LoRAs of its own. */
    transformer2: { ...TRANSFORMER, isOptional: true },
    audioVae: { classNames: ["AutoencoderKLLTX2Audio"], config: LTX2_AUDIO_VAE_CONFIG },
    vocoder: { classNames: ["LTX2Vocoder", "LTX2VocoderWithBWE"], config: LTX2_VOCODERS_CONFIG },
    vae: { classNames: ["AutoencoderKLLTX2Video"], config: LTX2_VIDEO_VAE_CONFIG },
    latentUpsampler: optionalPart(LTX2_LATENT_UPSAMPLER_CONFIG, "LTX2LatentUpsamplerModel"),
  },
  settings: z.object({}),
  scheduler: { type: FlowMatchEulerScheduler },
  equal: [
    ["transformer.in_channels", "vae.latent_channels"],
    ["connectors.caption_channels", "textEncoder.hidden_size"],
    ...sameSizes("transformer", "transformer2", [
      ...["in_channels", "audio_in_channels"] as const,
      ...["cross_attention_dim", "audio_cross_attention_dim"] as const,
    ]),
  ],
  fits: (
    { transformer, transformer2, connectors, textEncoder, vae, audioVae, vocoder, latentUpsampler },
  ) => {
    const { spatial, temporal } = ltx2Scale(vae);
    const [frames, rows, columns] = transformer.vae_scale_factors;
    const widths = transformer.use_prompt_embeddings
      ? { video: transformer.caption_channels, audio: transformer.caption_channels }
      : {
        video: transformer.cross_attention_dim,
        audio: transformer.audio_cross_attention_dim,
      };
    const checks: SizeCheck[] = [
      {
        "states that the text connectors take (text_proj_in_factor)":
          connectors.text_proj_in_factor,
        "text encoder's states, its embeddings among them": textEncoder.num_hidden_layers + 1,
      },
      { "transformer's frames for each latent": frames, "autoencoder's": temporal },
      { "transformer's rows for each latent": rows, "autoencoder's": spatial },
      { "transformer's columns for each latent": columns, "autoencoder's": spatial },
      ...(["video", "audio"] as const).map((modality) => ({
        [`text connectors' width for the ${modality}`]: projectedWidth(connectors, modality),
        "transformer's": widths[modality],
      })),
    ];
    const { audio_sampling_rate, audio_hop_length, audio_scale_factor } = transformer;
    checks.push(
      {
        "transformer's audio_in_channels": transformer.audio_in_channels,
        "features of the sound's latents": audioFeatures(audioVae),
      },
      {
        "transformer's latents of a second of sound": audio_sampling_rate / audio_hop_length /
          audio_scale_factor,
        "autoencoder's of the sound": audioRate(audioVae),
      },
      {
        "vocoder's in_channels": vocoder.in_channels,
        "bands that the autoencoder of the sound gives": audioVae.output_channels *
          audioVae.mel_bins,
      },
      {
        "mel frames of a second that the vocoder takes (its sampling rate by upsample_factors)":
          vocoderRate(vocoder),
        "autoencoder's of the sound (sample_rate by mel_hop_length)": melRate(audioVae),
      },
    );
    if (transformer2 && !latentUpsampler) {
      throw new TypeError(
        "Cannot use a second transformer without a latent upsampler: it is for the second of two stages; name one with --latent-upsampler",
      );
    }
    if (transformer2 && transformer2.use_prompt_embeddings !== transformer.use_prompt_embeddings) {
      throw new TypeError(
        "Cannot use transformers of LTX-2 and of LTX-2.3 together: they take prompts in different ways; pick two of one version",
      );
    }
    if (latentUpsampler) {
      const { spatial, frames } = upsamplerScale(latentUpsampler);
      if (frames(2) !== 2) {
        throw new TypeError(
          "Cannot use a latent upsampler that makes more frames: pick one for sizes",
        );
      }
      if (spatial < 1) {
        throw new TypeError(
          `Cannot use a latent upsampler that makes sides ${spatial} times as long: pick one that enlarges`,
        );
      }
      checks.push({
        "latent upsampler's in_channels": latentUpsampler.in_channels,
        "transformer's": transformer.in_channels,
      });
    }
    return checks;
  },
});

export type Ltx2Parts = PartsOf<typeof LTX2_PARTS>;

/** Whether a model was distilled to few steps without guidance: nothing but its name tells. */
export function isDistilled({ transformer: { path } }: Pick<Ltx2Parts, "transformer">): boolean {
  return path.split(/[\\/]/).some((part) => /ltx/i.test(part) && /distilled/i.test(part));
}

export function ltx2Info(parts: Ltx2Parts): FamilyInfo {
  const { vae, audioVae, transformer } = parts;
  const { spatial, temporal } = ltx2Scale(vae.config);
  const sampling = isDistilled(parts)
    ? { numInferenceSteps: DISTILLED_SIGMAS.length, guidanceScale: 1 }
    : { numInferenceSteps: 30, guidanceScale: 3, guidanceRescale: DEFAULT_RESCALE };
  const seconds = transformer.config.pos_embed_max_pos;
  const maxFrames = Math.floor(seconds * FPS / temporal) * temporal + 1;
  return {
    supportedTasks: ["T2V", "I2V", "F2V", "V2V"],
    defaultTask: "T2V",
    defaults: {
      ...{ width: 24 * spatial, height: 16 * spatial, fps: FPS },
      numFrames: Math.min(15 * temporal + 1, maxFrames),
      ...sampling,
    },
    givesAudio: true,
    ...hasSide(audioVae.weights, "encoder") && {
      takesAudio: {
        sampleRate: audioVae.config.sample_rate,
        channels: audioVae.config.in_channels,
      },
    },
    controlsByVideo: true,
    imageCrf: IMAGE_CRF,
    sizeMultiple: spatial,
    // The autoencoder mirrors edges.
    leastSide: 2 * spatial,
    frameMultiple: temporal,
    maxFrames,
    minImages: 1,
    maxImages: MAX_IMAGES,
    continuedFrames: CONTINUED_FRAMES,
    maxSequenceLength: PROMPT_TOKENS,
    usualSequenceLength: PROMPT_TOKENS,
    optionalSettings: [
      ...["flowShift", "maxSequenceLength", ...SAMPLING_CHOICES] as const,
      ...["guidanceRescale", "modalityScale", "imageFrames", "imageStrengths"] as const,
      ...["controlScale", "imageCrf"] as const,
      ...parts.latentUpsampler && (isDistilled(parts) || parts.transformer2)
        ? ["twoStages"] as const
        : [],
      ...["audioGuidanceScale", "audioGuidanceRescale", "audioModalityScale"] as const,
      ...transformer.config.perturbed_attn
        ? ["stgScale", "stgBlocks", "audioStgScale"] as const
        : [],
    ],
  };
}
