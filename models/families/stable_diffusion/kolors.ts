/**
 * Kolors: SDXL's UNet with ChatGLM3 as text encoder.
 * Source: Kolors Team 2024, "Kolors: Effective Training of Diffusion Model for Photorealistic Text-to-Image Synthesis"; diffusers
 * `KolorsPipeline` and `KolorsImg2ImgPipeline`.
 */
import { z } from "zod";
import { defineFamily } from "../../pipeline/family.ts";
import { everyControlNet } from "../../pipeline/control_nets.ts";
import { optionalPart, type PartsOf, partsTable } from "../../pipeline/components.ts";
import { guidedPrompts } from "../../pipeline/guidance.ts";
import type { FamilyInfo } from "../../pipeline/family_info.ts";
import { TINY_DECODER_CONFIG } from "../../autoencoders/tiny/config.ts";
import { DiffusionScheduler } from "../../schedulers/mod.ts";
import { CHATGLM3_CONFIG, chatGlm3Encoder } from "../../text_encoders/chatglm3.ts";
import { SD_PARTS, sdInfo, SDXL_VAE, type UnetParts } from "./config.ts";
import { KOLORS_LORA, SD_FILES } from "./layouts.ts";
import { imageShape, traceImages } from "./pipeline.ts";
import { type ShownText, summedUp } from "./text.ts";

/** Rows of every prompt, which the UNet sees with what fills them up. */
const ROWS = 256;

const { transformer, vae } = SD_PARTS.components;

const KOLORS_PARTS = partsTable({
  components: {
    textEncoder: { classNames: ["ChatGLMModel"], config: CHATGLM3_CONFIG },
    transformer,
    vae: { ...vae, lacking: () => SDXL_VAE },
    tinyDecoder: optionalPart(TINY_DECODER_CONFIG, "AutoencoderTiny"),
  },
  settings: z.object({}),
  scheduler: { type: DiffusionScheduler },
  equal: [
    ["transformer.in_channels", "vae.latent_channels"],
    ["transformer.out_channels", "vae.latent_channels"],
  ],
  fits({ transformer, textEncoder: { hidden_size } }) {
    const { encoder_hid_dim, projection_class_embeddings_input_dim, addition_time_embed_dim } =
      transformer;
    if (!transformer.encoder_hid_dim_type || !transformer.addition_embed_type) {
      throw new TypeError(
        "Cannot use the UNet with ChatGLM3: that of Kolors has encoder_hid_dim_type text_proj and addition_embed_type " +
          "text_time; fetch the model again",
      );
    }
    return [
      {
        "transformer's encoder_hid_dim": encoder_hid_dim ?? 0,
        "text encoder's hidden_size": hidden_size,
      },
      {
        "transformer's projection_class_embeddings_input_dim":
          projection_class_embeddings_input_dim!,
        "text encoder's hidden_size, with time ids": hidden_size + 6 * addition_time_embed_dim!,
      },
    ];
  },
});

type KolorsParts = PartsOf<typeof KOLORS_PARTS>;

/** What models of Stable Diffusion may have, and Kolors does not. */
const ABSENT = {
  ...everyControlNet(undefined),
  ipAdapter: undefined,
  ipAdapter2: undefined,
  ipAdapter3: undefined,
  ipAdapter4: undefined,
  imageEncoder: undefined,
  refiner: undefined,
} as const;

/** The UNet as the programs of Stable Diffusion take it. An empty negative prompt is a text like others. */
function unetParts(parts: KolorsParts): UnetParts {
  const settings = {
    force_zeros_for_empty_prompt: false,
    requires_aesthetics_score: false,
    is_cosxl_edit: false,
  };
  return { ...parts, ...ABSENT, settings };
}

function kolorsInfo(parts: KolorsParts): FamilyInfo {
  const info = sdInfo(unetParts(parts));
  return {
    ...info,
    maxSequenceLength: ROWS,
    optionalSettings: info.optionalSettings.filter((name) =>
      !["promptSyntax", "clipSkip"].includes(name)
    ),
  };
}

function shownText({ textEncoder, tokenizer }: KolorsParts): ShownText {
  const { hidden_size: dim } = textEncoder.config;
  return {
    encoder: chatGlm3Encoder(textEncoder, tokenizer.padId),
    summary: dim,
    of({ states }, prompt) {
      const second = summedUp(states, prompt, ROWS, dim);
      return { tokens: second.states, second };
    },
  };
}

export const KOLORS = defineFamily({
  classNames: ["KolorsPipeline", "KolorsImg2ImgPipeline"],
  files: SD_FILES,
  parts: KOLORS_PARTS,
  lora: KOLORS_LORA,
  info: kolorsInfo,
  prompts: (request) => guidedPrompts(request),
  shapeOf: (request, parts, { lengths }) =>
    imageShape(request, unetParts(parts), { prompts: lengths.length, rows: ROWS }),
  trace: (session, parts, shape) => traceImages(session, unetParts(parts), shownText(parts), shape),
});
