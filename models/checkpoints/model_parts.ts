/** Parts of a model: what they are called, and where a user says that they lie. */
import { CONTROLNET_PARTS, IP_ADAPTER_PARTS, type PartName } from "../../hub/model_index.ts";

/** Parts of a model that lie elsewhere, each a file, a folder, a hub id or `org/name:file`. */
export interface ModelParts {
  /** The denoising transformer; of two experts the one for high noise. */
  transformer?: string;
  /** The transformer for low noise, of models with two. */
  transformer2?: string;
  /** The image encoder. */
  imageEncoder?: string;
  /** The vision tower of a text encoder whose file has none: llama.cpp's `mmproj`. */
  mmproj?: string;
  /** The text encoder. */
  textEncoder?: string;
  /** The second text encoder; what `tokenizer` names has it too where that is a whole model. */
  textEncoder2?: string;
  /** The third text encoder, or `none` to do without; what `tokenizer` names has its tokenizer too where that is a whole model. */
  textEncoder3?: string;
  /** The autoencoder. */
  vae?: string;
  /** What leads from the text encoder's states to the transformer, in models of video and sound. */
  connectors?: string;
  /** The autoencoder of the sound. */
  audioVae?: string;
  /** The network that makes the sound of its spectrum. */
  vocoder?: string;
  /** A network that enlarges latents between two stages, for `twoStages`. */
  latentUpsampler?: string;
  /** A small decoder for previews and for `decoder: "tiny"`. */
  tinyDecoder?: string;
  /** A network that steers results by a control picture, for `control`. */
  controlnet?: string;
  /** A second one, where the family takes several pictures at once. */
  controlnet2?: string;
  /** A third one. */
  controlnet3?: string;
  /** A fourth one. */
  controlnet4?: string;
  /** A network that makes tokens of reference images, for `references`; `imageEncoder` lies beside its file by default. */
  ipAdapter?: string;
  /** A second one, which sees by the same image encoder. */
  ipAdapter2?: string;
  /** A third one. */
  ipAdapter3?: string;
  /** A fourth one. */
  ipAdapter4?: string;
  /** The UNet of SDXL's refiner, which takes the last steps over. */
  refiner?: string;
  /** A network that enlarges results, for `enableUpscaling`. */
  upscaler?: string;
  /** A network that puts frames between those of a video, for `enableFrameInterpolation`. */
  frameInterpolator?: string;
  /** A folder with the files of the tokenizer, or of a whole model, or a file that holds one. */
  tokenizer?: string;
  /** Tokenizer of the second text encoder; what `tokenizer` names has it too where that is a whole model. */
  tokenizer2?: string;
  /** Tokenizer of the third text encoder; what `tokenizer` names has it too where that is a whole model. */
  tokenizer3?: string;
  /** A folder of textual inversions, which prompts name as `embedding:name`; models without CLIP's prompts use none. */
  embeddings?: string;
  /** What a model of Stable Diffusion predicts, where its files do not say, as those of SD 2 for 768 pixels. */
  predictionType?: "epsilon" | "v_prediction" | "sample";
  /** Whether its noise schedule ends in noise alone (zero terminal SNR). */
  rescaleBetasZeroSnr?: boolean;
  /** Whether ControlNets and IP-Adapters wait for requests that use them; by default each request is expected to. */
  steersWhenAsked?: boolean;
}

interface PartRow {
  readonly words: string;
  readonly isNeeded?: true;
  /** Whether it may lie in a model's folder though the `model_index.json` there does not name it. */
  readonly isBeside?: true;
}

export const COMPONENTS: Readonly<Record<Exclude<PartName, keyof typeof TOKENIZERS>, PartRow>> = {
  transformer: { words: "transformer", isNeeded: true },
  transformer2: { words: "second transformer" },
  textEncoder: { words: "text encoder", isNeeded: true },
  textEncoder2: { words: "second text encoder" },
  textEncoder3: { words: "third text encoder" },
  imageEncoder: { words: "image encoder" },
  mmproj: { words: "vision tower" },
  vae: { words: "autoencoder", isNeeded: true },
  connectors: { words: "text connectors" },
  audioVae: { words: "autoencoder of the sound" },
  vocoder: { words: "vocoder" },
  latentUpsampler: { words: "latent upsampler", isBeside: true },
  tinyDecoder: { words: "tiny decoder", isBeside: true },
  controlnet: { words: "ControlNet", isBeside: true },
  controlnet2: { words: "second ControlNet", isBeside: true },
  controlnet3: { words: "third ControlNet", isBeside: true },
  controlnet4: { words: "fourth ControlNet", isBeside: true },
  ipAdapter: { words: "IP-Adapter", isBeside: true },
  ipAdapter2: { words: "second IP-Adapter", isBeside: true },
  ipAdapter3: { words: "third IP-Adapter", isBeside: true },
  ipAdapter4: { words: "fourth IP-Adapter", isBeside: true },
  refiner: { words: "refiner", isBeside: true },
  upscaler: { words: "upscaler", isBeside: true },
  frameInterpolator: { words: "frame interpolator", isBeside: true },
};

/** What the files of parts hold that are called otherwise. */
export const KINDS: Readonly<Partial<Record<PartName, string>>> = {
  transformer2: "transformer",
  refiner: "transformer",
  ...Object.fromEntries(CONTROLNET_PARTS.map((part) => [part, "controlnet"])),
  ...Object.fromEntries(IP_ADAPTER_PARTS.map((part) => [part, "ip_adapter"])),
};

export const PARTS = Object.keys(COMPONENTS) as (keyof typeof COMPONENTS)[];

export const TOKENIZERS = {
  tokenizer: { words: "tokenizer", encoder: "textEncoder" },
  tokenizer2: { words: "second tokenizer", encoder: "textEncoder2" },
  tokenizer3: { words: "third tokenizer", encoder: "textEncoder3" },
} as const;

export const TOKENIZER_PARTS = Object.keys(TOKENIZERS) as (keyof typeof TOKENIZERS)[];
