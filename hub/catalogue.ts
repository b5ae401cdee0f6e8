/** Models by name: where their files are, and the sizes of their layers, as docs/models.md has them. */

/** Tasks of the models here, by their names in requests. */
type CatalogueTask = "T2I" | "TI2I" | "T2V" | "I2V" | "F2V" | "V2V";

export interface CatalogueModel {
  /** Name by which the model is called, such as `z-image-turbo`. */
  readonly name: string;
  /** The model's name as its authors write it. */
  readonly title: string;
  readonly family: string;
  readonly makes: "images" | "videos";
  /** What people would choose it for. */
  readonly goodFor: string;
  /** What it can be asked for. */
  readonly tasks: readonly CatalogueTask[];
  readonly licence: string;
  /** Set where the terms have to be accepted on the repository's page. */
  readonly isGated?: true;
  /** Repository of the whole model in the layout of diffusers, in bf16 or f32. */
  readonly repository: string;
  readonly parameters: number;
  /** What else goes with it. */
  readonly textEncoder: string;
  /** Bytes of the text encoder in bf16, without embeddings. */
  readonly textEncoderBytes: number;
  /** Bytes of what its files have besides: embeddings, and layers that are not read. */
  readonly unreadBytes?: number;
  readonly vae: string;
  /** Transformers as GGUF files. */
  readonly quantised?: {
    readonly repository: string;
    /** Types that are known to be there, most bits first. */
    readonly types: readonly string[];
    /** What the paths of two transformers have in them: that for high noise, that for low noise. */
    readonly experts?: readonly [high: string, low: string];
  };
}

const QWEN3_4B = { textEncoder: "Qwen3-4B", textEncoderBytes: 7.1e9, unreadBytes: 0.9e9 };
export const APACHE = { licence: "Apache-2.0" };
export const FLUX_LICENCE = { licence: "FLUX non-commercial", isGated: true } as const;
const IMAGES = { makes: "images", tasks: ["T2I", "TI2I"] } as const;
const EDITS = { makes: "images", tasks: ["TI2I"] } as const;
const FLUX1 = {
  ...IMAGES,
  family: "FLUX.1",
  goodFor: "photos and art, in detail",
  parameters: 11.9e9,
  textEncoder: "T5-XXL, CLIP-L",
  textEncoderBytes: 9.5e9,
  vae: "FLUX.1's",
};
const QWEN_IMAGE = {
  ...IMAGES,
  ...APACHE,
  family: "Qwen-Image",
  goodFor: "pictures with much text, and long prompts",
  parameters: 20.4e9,
  textEncoder: "Qwen2.5-VL-7B",
  textEncoderBytes: 13.1e9,
  unreadBytes: 3.5e9,
  vae: "Qwen-Image's",
};
const QWEN_IMAGE_21 = {
  ...IMAGES,
  family: "Qwen-Image-2.1",
  goodFor: "pictures with transparency and with text, edits by instructions",
  licence: "Qwen Research",
  parameters: 7.1e9,
  textEncoder: "Qwen3-VL-8B",
  // With the vision tower.
  textEncoderBytes: 15.1e9,
  unreadBytes: 2.4e9,
  vae: "its own",
} as const;
const KREA2 = {
  ...IMAGES,
  family: "Krea 2",
  goodFor: "art and photos in many styles, which LoRAs add to",
  licence: "Krea 2 Community",
  isGated: true,
  parameters: 12.8e9,
  textEncoder: "Qwen3-VL-4B",
  textEncoderBytes: 7.1e9,
  // With the vision tower.
  unreadBytes: 1.8e9,
  vae: "Qwen-Image's",
} as const;
const ANIMA = {
  ...IMAGES,
  family: "Anima",
  goodFor: "anime and drawings, by tags",
  licence: "CircleStone non-commercial",
  parameters: 2.09e9,
  textEncoder: "Qwen3-0.6B",
  textEncoderBytes: 0.9e9,
  unreadBytes: 0.3e9,
  vae: "Qwen-Image's",
} as const;
const ERNIE_IMAGE = {
  ...IMAGES,
  ...APACHE,
  family: "ERNIE-Image",
  goodFor: "posters and pictures with much text",
  parameters: 8.03e9,
  textEncoder: "Ministral-3-3B",
  textEncoderBytes: 6.1e9,
  // With the vision tower.
  unreadBytes: 1.6e9,
  vae: "FLUX.2's",
} as const;
const FLUX3 = {
  ...IMAGES,
  family: "FLUX.3",
  goodFor: "pictures and edits of many images, with many steps; for LoRAs",
  ...FLUX_LICENCE,
  parameters: 5.55e9,
  textEncoder: "Qwen3-VL-4B",
  // Of all but the last four layers.
  textEncoderBytes: 6.3e9,
  // With the vision tower.
  unreadBytes: 2.6e9,
  vae: "FLUX.2's",
} as const;
const LTX2 = {
  family: "LTX-2",
  makes: "videos",
  tasks: ["T2V", "I2V", "F2V"],
  goodFor: "videos with sound, from text, a picture or a video",
  licence: "LTX-2 Community",
  parameters: 19e9,
  textEncoder: "Gemma-3-12B",
  textEncoderBytes: 21.5e9,
  // With the vision tower.
  unreadBytes: 2.8e9,
  vae: "its own, and one of the sound",
} as const;
const IDEOGRAM4 = {
  ...IMAGES,
  family: "Ideogram 4",
  goodFor: "posters, signs and layouts, by prompts in JSON",
  licence: "own, non-commercial",
  isGated: true,
  // Of each of two transformers in fp8, which have as many bytes as one in bf16.
  parameters: 9.28e9,
  textEncoder: "Qwen3-VL-8B",
  // In fp8, too.
  textEncoderBytes: 7e9,
  // With the vision tower.
  unreadBytes: 1.6e9,
  vae: "FLUX.2's",
} as const;
const LUMINA2 = {
  ...IMAGES,
  ...APACHE,
  family: "Lumina 2",
  goodFor: "pictures on small cards; base of anime models",
  parameters: 2.61e9,
  textEncoder: "Gemma-2-2B",
  textEncoderBytes: 3.9e9,
  unreadBytes: 1.3e9,
  vae: "FLUX.1's",
};
const LONGCAT_IMAGE = {
  ...IMAGES,
  ...APACHE,
  family: "LongCat-Image",
  goodFor: "photos and signs, with text in English and Chinese",
  parameters: 6.3e9,
  textEncoder: "Qwen2.5-VL-7B",
  textEncoderBytes: 13.1e9,
  unreadBytes: 3.5e9,
  vae: "FLUX.1's",
};
const AURAFLOW = {
  ...IMAGES,
  ...APACHE,
  family: "AuraFlow",
  goodFor: "pictures that follow long prompts; base of Pony V7",
  parameters: 6.8e9,
  textEncoder: "Pile-T5-XL",
  textEncoderBytes: 2.3e9,
  vae: "SDXL's",
};
const OVIS_IMAGE = {
  ...IMAGES,
  ...APACHE,
  family: "Ovis-Image",
  goodFor: "posters and signs with text",
  parameters: 7.4e9,
  textEncoder: "Ovis2.5-2B",
  textEncoderBytes: 2.8e9,
  unreadBytes: 0.6e9,
  vae: "FLUX.1's",
};
const SDXL = {
  ...IMAGES,
  family: "SDXL",
  goodFor: "many styles, with thousands of LoRAs",
  licence: "CreativeML Open RAIL++-M",
  parameters: 2.57e9,
  textEncoder: "CLIP-L, OpenCLIP bigG",
  textEncoderBytes: 1.64e9,
  vae: "SDXL's",
};
const KOLORS = {
  ...IMAGES,
  family: "Kolors",
  goodFor: "portraits and photos, from prompts in Chinese, too",
  licence: "own, by registration",
  parameters: 2.58e9,
  textEncoder: "ChatGLM3-6B",
  textEncoderBytes: 11.4e9,
  // With a layer for words.
  unreadBytes: 1.1e9,
  vae: "SDXL's",
} as const;
export const SD3 = {
  ...IMAGES,
  family: "SD 3",
  goodFor: "varied pictures, which follow long prompts",
  licence: "Stability Community",
  isGated: true,
  textEncoder: "T5-XXL, CLIP-L, OpenCLIP bigG",
  textEncoderBytes: 10.9e9,
  unreadBytes: 0.5e9,
  vae: "its own",
} as const;
const WAN = {
  ...APACHE,
  family: "Wan",
  makes: "videos",
  tasks: ["T2I", "T2V", "V2V"],
  goodFor: "videos from text",
  textEncoder: "UMT5-XXL",
  textEncoderBytes: 9.3e9,
  unreadBytes: 2.1e9,
  vae: "Wan 2.1's",
} as const;
const FORCED = {
  tasks: ["T2I", "T2V", "I2V", "F2V", "V2V"],
  goodFor: "videos from text or a picture",
} as const;
const SKY_REELS = { licence: "Skywork Community" } as const;
const HUNYUAN_VIDEO_15 = {
  family: "HunyuanVideo 1.5",
  makes: "videos",
  licence: "Tencent Hunyuan Community",
  parameters: 8.3e9,
  textEncoder: "Qwen2.5-VL-7B, ByT5",
  // Without the last two layers.
  textEncoderBytes: 12.6e9,
  unreadBytes: 2e9,
  vae: "its own",
} as const;
const MOVES = { tasks: ["I2V", "F2V"], goodFor: "videos from a picture" } as const;
const VACE = {
  tasks: ["T2I", "T2V", "I2V", "F2V", "V2V"],
  goodFor: "videos after a sketch, poses, depth or parts of others",
} as const;

const KINDS: Readonly<
  Record<string, Omit<CatalogueModel, "name" | "title" | "repository" | "quantised">>
> = {
  "Z-Image": {
    ...IMAGES,
    ...APACHE,
    ...QWEN3_4B,
    family: "Z-Image",
    goodFor: "photos and signs with text, with many steps",
    parameters: 6.15e9,
    vae: "FLUX.1's",
  },
  // FLUX.2 klein reads three quarters of the layers of its text encoder.
  "klein 4B": {
    ...IMAGES,
    ...APACHE,
    ...QWEN3_4B,
    family: "FLUX.2",
    goodFor: "pictures in seconds, and edits",
    parameters: 3.88e9,
    textEncoderBytes: 5.5e9,
    unreadBytes: 2.5e9,
    vae: "FLUX.2's",
  },
  "klein 9B": {
    ...IMAGES,
    ...FLUX_LICENCE,
    family: "FLUX.2",
    goodFor: "pictures and edits, in more detail than 4B",
    parameters: 9.08e9,
    textEncoder: "Qwen3-8B",
    textEncoderBytes: 10.4e9,
    unreadBytes: 6e9,
    vae: "FLUX.2's",
  },
  // Of the language model three quarters of the layers are read.
  "FLUX.2 dev": {
    ...IMAGES,
    ...FLUX_LICENCE,
    family: "FLUX.2",
    goodFor: "pictures and edits in the most detail, on large cards",
    parameters: 32.2e9,
    textEncoder: "Mistral-Small-3.2-24B",
    textEncoderBytes: 33.3e9,
    // With the vision tower.
    unreadBytes: 14.7e9,
    vae: "FLUX.2's",
  },
  "FLUX.1 schnell": { ...FLUX1, ...APACHE, isGated: true },
  "FLUX.1 dev": { ...FLUX1, ...FLUX_LICENCE },
  "Chroma": {
    ...FLUX1,
    ...APACHE,
    family: "Chroma",
    goodFor: "photos and art, without filters",
    parameters: 8.9e9,
    textEncoder: "T5-XXL",
    textEncoderBytes: 9.3e9,
  },
  "Qwen-Image": QWEN_IMAGE,
  "Qwen-Image layered": {
    ...QWEN_IMAGE,
    ...EDITS,
    goodFor: "a picture taken apart into layers",
    vae: "its own, with alpha",
  },
  // With the vision tower.
  "Qwen-Image edit": {
    ...QWEN_IMAGE,
    ...EDITS,
    goodFor: "edits by instructions, text in pictures too",
    textEncoderBytes: 14.4e9,
    unreadBytes: 2.2e9,
  },
  "Qwen-Image-2.1": QWEN_IMAGE_21,
  "Krea 2": KREA2,
  "Anima": ANIMA,
  "ERNIE-Image": ERNIE_IMAGE,
  "FLUX.3": FLUX3,
  "Ideogram 4": IDEOGRAM4,
  "Lumina 2": LUMINA2,
  "Ovis-Image": OVIS_IMAGE,
  "AuraFlow": AURAFLOW,
  "LongCat-Image": LONGCAT_IMAGE,
  "LongCat-Image edit": {
    ...LONGCAT_IMAGE,
    ...EDITS,
    goodFor: "edits by instructions, text in pictures too",
    textEncoderBytes: 14.4e9,
    unreadBytes: 2.2e9,
  },
  "SD 1.5": {
    ...IMAGES,
    family: "SD 1 or SD 2",
    goodFor: "small cards, with thousands of LoRAs",
    licence: "CreativeML Open RAIL-M",
    parameters: 0.86e9,
    textEncoder: "CLIP-L",
    textEncoderBytes: 0.25e9,
    vae: "Stable Diffusion's",
  },
  "SDXL": SDXL,
  "SDXL Open RAIL-M": { ...SDXL, licence: "CreativeML Open RAIL-M" },
  "SDXL-Turbo": {
    ...SDXL,
    goodFor: "pictures of 512x512 in one step",
    licence: "Stability non-commercial",
  },
  "Kolors": KOLORS,
  "SD 3 Medium": { ...SD3, parameters: 2.09e9 },
  "SD 3.5 Medium": { ...SD3, goodFor: "varied pictures on small cards", parameters: 2.47e9 },
  "SD 3.5 Large": { ...SD3, parameters: 8.15e9 },
  "SDXL refiner": {
    ...SDXL,
    ...EDITS,
    goodFor: "the last steps of SDXL's pictures",
    parameters: 2.3e9,
    textEncoder: "OpenCLIP bigG",
    textEncoderBytes: 1.39e9,
  },
  "LTX-2": LTX2,
  "LTX-2.3": { ...LTX2, parameters: 22e9 },
  "Wan 1.3B": { ...WAN, parameters: 1.42e9 },
  "FastWan 1.3B": { ...WAN, parameters: 1.49e9 },
  "Wan 5B": {
    ...WAN,
    tasks: ["T2I", "T2V", "I2V", "F2V", "V2V"],
    goodFor: "videos from text or a picture",
    parameters: 5e9,
    vae: "Wan 2.2's",
  },
  "Wan 14B": { ...WAN, parameters: 14.3e9 },
  "Wan A14B": { ...WAN, parameters: 14.3e9 },
  "Wan I2V A14B": { ...WAN, ...MOVES, parameters: 14.3e9 },
  "Wan I2V 14B": { ...WAN, ...MOVES, parameters: 16.4e9 },
  "Wan FLF2V 14B": {
    ...WAN,
    tasks: ["I2V"],
    goodFor: "videos between two pictures",
    parameters: 16.4e9,
  },
  "Wan Animate": {
    ...WAN,
    tasks: ["V2V"],
    goodFor: "a person of a picture, moved as in a video",
    parameters: 16.4e9,
  },
  "SkyReels T2V": { ...WAN, ...SKY_REELS, parameters: 14.3e9 },
  "SkyReels DF": { ...WAN, ...SKY_REELS, ...FORCED, parameters: 14.3e9 },
  "SkyReels DF 1.3B": { ...WAN, ...SKY_REELS, ...FORCED, parameters: 1.44e9 },
  "SkyReels I2V": { ...WAN, ...SKY_REELS, ...MOVES, parameters: 16.4e9 },
  "SkyReels I2V 1.3B": { ...WAN, ...SKY_REELS, ...MOVES, parameters: 1.56e9 },
  "ChronoEdit": {
    ...WAN,
    ...EDITS,
    licence: "NVIDIA Open Model",
    goodFor: "edits that follow physics",
    parameters: 16.4e9,
  },
  "HunyuanVideo 1.5": {
    ...HUNYUAN_VIDEO_15,
    tasks: ["T2V"],
    goodFor: "videos from text, with words in them",
  },
  "HunyuanVideo 1.5 I2V": {
    ...HUNYUAN_VIDEO_15,
    tasks: ["I2V"],
    goodFor: "videos from a picture, with words in them",
  },
  "VACE 1.3B": { ...WAN, ...VACE, parameters: 2.15e9 },
  "VACE 14B": { ...WAN, ...VACE, parameters: 17.3e9 },
};

/** What models are good for that differ from others of their kind. */
const GOOD_FOR: Readonly<Record<string, string>> = {
  "z-image-turbo": "photos and signs with text, in 8 steps",
  "flux.1-schnell": "pictures in 4 steps",
  "flux.3-klein": "pictures and edits of many images, in 16 steps",
  "ernie-image-turbo": "posters and pictures with much text, in 8 steps",
  "flux.1-kontext-dev": "edits by instructions",
  "flux.1-krea-dev": "photos that do not look made",
  "flux.1-fill-dev": "inpainting and outpainting",
  "flux.1-canny-dev": "pictures after an outline",
  "flux.1-depth-dev": "pictures after a depth map",
  "sd-3.5-large-turbo": "varied pictures in 4 steps",
  "animagine-xl-4.0": "anime",
  "juggernaut-xl-v9": "photos",
  "realistic-vision-5.1": "small cards, photos",
  "dreamshaper-8": "small cards, art and portraits",
  "ltx-2.3-distilled": "videos with sound, in 8 steps",
  "fastwan2.1-t2v-1.3b": "videos in 3 steps",
  "fastwan2.2-ti2v-5b": "videos in 3 steps",
  "wan2.1-t2v-1.3b": "videos on small cards",
  "hunyuan-1.5-480p-i2v-step": "videos from a picture in 12 steps",
};

/** Models that make nothing without a picture, of kinds that do. */
const NEED_IMAGES: readonly string[] = ["flux.1-fill-dev", "flux.1-canny-dev", "flux.1-depth-dev"];

/** What the paths of a transformer for high noise, and of one for low noise have in them. */
const EXPERTS: Readonly<Record<string, readonly [string, string]>> = {
  "Wan A14B": ["HighNoise", "LowNoise"],
  "Wan I2V A14B": ["HighNoise", "LowNoise"],
};

/** Types of GGUF files where the table names none. */
const USUAL_TYPES = "q8_0 q6_k q5_k q4_k q3_k";

/** Name, title, kind and repository of each model, and where it has GGUF files and of which types; those that most want first. */
const MODELS = `
z-image-turbo                  | Z-Image-Turbo               | Z-Image            | Tongyi-MAI/Z-Image-Turbo                        | leejet/Z-Image-Turbo-GGUF | q8_0 q6_k q5_0 q4_k q3_k q2_k
flux.2-klein-4b                | FLUX.2 klein 4B             | klein 4B           | black-forest-labs/FLUX.2-klein-4B               | unsloth/FLUX.2-klein-4B-GGUF
wan2.2-ti2v-5b                 | Wan 2.2 TI2V 5B             | Wan 5B             | Wan-AI/Wan2.2-TI2V-5B-Diffusers                 | QuantStack/Wan2.2-TI2V-5B-GGUF
ltx-2.3-distilled              | LTX-2.3 distilled           | LTX-2.3            | diffusers/LTX-2.3-Distilled-Diffusers
ltx-2.3                        | LTX-2.3                     | LTX-2.3            | diffusers/LTX-2.3-Diffusers
ltx-2                          | LTX-2                       | LTX-2              | Lightricks/LTX-2
flux.2-klein-9b                | FLUX.2 klein 9B             | klein 9B           | black-forest-labs/FLUX.2-klein-9B               | leejet/FLUX.2-klein-9B-GGUF | q8_0 q4_0
flux.2-dev                     | FLUX.2 dev                  | FLUX.2 dev         | black-forest-labs/FLUX.2-dev                    | city96/FLUX.2-dev-gguf
flux.3-klein                   | FLUX.3 Image klein          | FLUX.3             | black-forest-labs/flux-3-image-klein
flux.3-klein-base              | FLUX.3 Image klein base     | FLUX.3             | black-forest-labs/flux-3-image-klein-base
flux.1-schnell                 | FLUX.1 schnell              | FLUX.1 schnell     | black-forest-labs/FLUX.1-schnell                | city96/FLUX.1-schnell-gguf
flux.1-dev                     | FLUX.1 dev                  | FLUX.1 dev         | black-forest-labs/FLUX.1-dev                    | city96/FLUX.1-dev-gguf
flux.1-kontext-dev             | FLUX.1 Kontext-dev          | FLUX.1 dev         | black-forest-labs/FLUX.1-Kontext-dev            | QuantStack/FLUX.1-Kontext-dev-GGUF
flux.1-krea-dev                | FLUX.1 Krea-dev             | FLUX.1 dev         | black-forest-labs/FLUX.1-Krea-dev               | QuantStack/FLUX.1-Krea-dev-GGUF
flux.1-fill-dev                | FLUX.1 Fill-dev             | FLUX.1 dev         | black-forest-labs/FLUX.1-Fill-dev               | YarvixPA/FLUX.1-Fill-dev-GGUF
flux.1-canny-dev               | FLUX.1 Canny-dev            | FLUX.1 dev         | black-forest-labs/FLUX.1-Canny-dev
flux.1-depth-dev               | FLUX.1 Depth-dev            | FLUX.1 dev         | black-forest-labs/FLUX.1-Depth-dev
chroma1-hd                     | Chroma1-HD                  | Chroma             | lodestones/Chroma1-HD                           | silveroxides/Chroma1-HD-GGUF | q8_0 q5_k q4_k
chroma1-base                   | Chroma1-Base                | Chroma             | lodestones/Chroma1-Base
sdxl-base                      | Stable Diffusion XL base    | SDXL               | stabilityai/stable-diffusion-xl-base-1.0
sdxl-refiner                   | Stable Diffusion XL refiner | SDXL refiner       | stabilityai/stable-diffusion-xl-refiner-1.0
sdxl-turbo                     | SDXL-Turbo                  | SDXL-Turbo         | stabilityai/sdxl-turbo
animagine-xl-4.0               | Animagine XL 4.0            | SDXL               | cagliostrolab/animagine-xl-4.0
juggernaut-xl-v9               | Juggernaut XL v9            | SDXL Open RAIL-M   | RunDiffusion/Juggernaut-XL-v9
kolors                         | Kolors                      | Kolors             | Kwai-Kolors/Kolors-diffusers
sd-3.5-large                   | Stable Diffusion 3.5 Large  | SD 3.5 Large       | stabilityai/stable-diffusion-3.5-large          | city96/stable-diffusion-3.5-large-gguf | q8_0 q4_0
sd-3.5-large-turbo             | Stable Diffusion 3.5 Large Turbo | SD 3.5 Large       | stabilityai/stable-diffusion-3.5-large-turbo    | city96/stable-diffusion-3.5-large-turbo-gguf | q8_0 q4_0
sd-3.5-medium                  | Stable Diffusion 3.5 Medium | SD 3.5 Medium      | stabilityai/stable-diffusion-3.5-medium         | city96/stable-diffusion-3.5-medium-gguf | q8_0 q4_0
sd-3-medium                    | Stable Diffusion 3 Medium   | SD 3 Medium        | stabilityai/stable-diffusion-3-medium-diffusers
sd-1.5                         | Stable Diffusion 1.5        | SD 1.5             | stable-diffusion-v1-5/stable-diffusion-v1-5
dreamshaper-8                  | DreamShaper 8               | SD 1.5             | Lykon/dreamshaper-8
realistic-vision-5.1           | Realistic Vision 5.1        | SD 1.5             | SG161222/Realistic_Vision_V5.1_noVAE
qwen-image-2.1                 | Qwen-Image-2.1              | Qwen-Image-2.1     | Qwen/Qwen-Image-2.1                             | unsloth/Qwen-Image-2.1-GGUF
krea-2-turbo                   | Krea 2 Turbo                | Krea 2             | krea/Krea-2-Turbo                               | Abiray/Krea-2-Turbo-GGUF
krea-2-raw                     | Krea 2 Raw                  | Krea 2             | krea/Krea-2-Raw
anima                          | Anima                       | Anima              | circlestone-labs/Anima-Base-v1.0-Diffusers
ideogram-4                     | Ideogram 4                  | Ideogram 4         | ideogram-ai/ideogram-4-fp8
ovis-image                     | Ovis-Image                  | Ovis-Image         | AIDC-AI/Ovis-Image-7B                           | leejet/Ovis-Image-7B-GGUF | q4_0
longcat-image                  | LongCat-Image               | LongCat-Image      | meituan-longcat/LongCat-Image
longcat-image-edit             | LongCat-Image-Edit          | LongCat-Image edit | meituan-longcat/LongCat-Image-Edit
longcat-image-edit-turbo       | LongCat-Image-Edit-Turbo    | LongCat-Image edit | meituan-longcat/LongCat-Image-Edit-Turbo
auraflow-0.3                   | AuraFlow 0.3                | AuraFlow           | fal/AuraFlow-v0.3
lumina-image-2.0               | Lumina-Image 2.0            | Lumina 2           | Alpha-VLLM/Lumina-Image-2.0                     | calcuis/lumina-gguf | q8_0
ernie-image-turbo              | ERNIE-Image-Turbo           | ERNIE-Image        | baidu/ERNIE-Image-Turbo                         | unsloth/ERNIE-Image-Turbo-GGUF
ernie-image                    | ERNIE-Image                 | ERNIE-Image        | baidu/ERNIE-Image                               | unsloth/ERNIE-Image-GGUF
qwen-image                     | Qwen-Image                  | Qwen-Image         | Qwen/Qwen-Image                                 | QuantStack/Qwen-Image-GGUF
qwen-image-2512                | Qwen-Image-2512             | Qwen-Image         | Qwen/Qwen-Image-2512                            | unsloth/Qwen-Image-2512-GGUF
qwen-image-layered             | Qwen-Image-Layered          | Qwen-Image layered | Qwen/Qwen-Image-Layered                         | unsloth/Qwen-Image-Layered-GGUF
qwen-image-edit-2511           | Qwen-Image-Edit-2511        | Qwen-Image edit    | Qwen/Qwen-Image-Edit-2511                       | unsloth/Qwen-Image-Edit-2511-GGUF
qwen-image-edit-2509           | Qwen-Image-Edit-2509        | Qwen-Image edit    | Qwen/Qwen-Image-Edit-2509                       | QuantStack/Qwen-Image-Edit-2509-GGUF
qwen-image-edit                | Qwen-Image-Edit             | Qwen-Image edit    | Qwen/Qwen-Image-Edit                            | QuantStack/Qwen-Image-Edit-GGUF
wan2.1-t2v-1.3b                | Wan 2.1 T2V 1.3B            | Wan 1.3B           | Wan-AI/Wan2.1-T2V-1.3B-Diffusers
fastwan2.1-t2v-1.3b            | FastWan 2.1 T2V 1.3B        | FastWan 1.3B       | FastVideo/FastWan2.1-T2V-1.3B-Diffusers
fastwan2.2-ti2v-5b             | FastWan 2.2 TI2V 5B         | Wan 5B             | FastVideo/FastWan2.2-TI2V-5B-FullAttn-Diffusers
wan2.2-t2v-a14b                | Wan 2.2 T2V A14B            | Wan A14B           | Wan-AI/Wan2.2-T2V-A14B-Diffusers                | QuantStack/Wan2.2-T2V-A14B-GGUF
wan2.2-i2v-a14b                | Wan 2.2 I2V A14B            | Wan I2V A14B       | Wan-AI/Wan2.2-I2V-A14B-Diffusers                | QuantStack/Wan2.2-I2V-A14B-GGUF
wan2.1-t2v-14b                 | Wan 2.1 T2V 14B             | Wan 14B            | Wan-AI/Wan2.1-T2V-14B-Diffusers                 | city96/Wan2.1-T2V-14B-gguf
wan2.1-i2v-14b-480p            | Wan 2.1 I2V 14B 480P        | Wan I2V 14B        | Wan-AI/Wan2.1-I2V-14B-480P-Diffusers            | city96/Wan2.1-I2V-14B-480P-gguf
wan2.1-i2v-14b-720p            | Wan 2.1 I2V 14B 720P        | Wan I2V 14B        | Wan-AI/Wan2.1-I2V-14B-720P-Diffusers            | city96/Wan2.1-I2V-14B-720P-gguf
wan2.1-flf2v-14b-720p          | Wan 2.1 FLF2V 14B 720P      | Wan FLF2V 14B      | Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers          | city96/Wan2.1-FLF2V-14B-720P-gguf
wan2.2-animate-2-14b           | Wan-Animate-2 14B           | Wan Animate        | Wan-AI/Wan2.2-Animate-2-14B-Diffusers
wan2.2-animate-2-14b-distilled | Wan-Animate-2 14B distilled | Wan Animate        | Wan-AI/Wan2.2-Animate-2-14B-Distilled-Diffusers
wan2.1-vace-1.3b               | Wan 2.1 VACE 1.3B           | VACE 1.3B          | Wan-AI/Wan2.1-VACE-1.3B-diffusers
wan2.1-vace-14b                | Wan 2.1 VACE 14B            | VACE 14B           | Wan-AI/Wan2.1-VACE-14B-diffusers                | QuantStack/Wan2.1_14B_VACE-GGUF
skyreels-v2-t2v-14b-540p       | SkyReels V2 T2V 14B 540P    | SkyReels T2V       | Skywork/SkyReels-V2-T2V-14B-540P-Diffusers
skyreels-v2-t2v-14b-720p       | SkyReels V2 T2V 14B 720P    | SkyReels T2V       | Skywork/SkyReels-V2-T2V-14B-720P-Diffusers
skyreels-v2-i2v-14b-540p       | SkyReels V2 I2V 14B 540P    | SkyReels I2V       | Skywork/SkyReels-V2-I2V-14B-540P-Diffusers
skyreels-v2-i2v-14b-720p       | SkyReels V2 I2V 14B 720P    | SkyReels I2V       | Skywork/SkyReels-V2-I2V-14B-720P-Diffusers
skyreels-v2-i2v-1.3b-540p      | SkyReels V2 I2V 1.3B 540P   | SkyReels I2V 1.3B  | Skywork/SkyReels-V2-I2V-1.3B-540P-Diffusers
skyreels-v2-df-14b-540p        | SkyReels V2 DF 14B 540P     | SkyReels DF        | Skywork/SkyReels-V2-DF-14B-540P-Diffusers
skyreels-v2-df-14b-720p        | SkyReels V2 DF 14B 720P     | SkyReels DF        | Skywork/SkyReels-V2-DF-14B-720P-Diffusers
skyreels-v2-df-1.3b-540p       | SkyReels V2 DF 1.3B 540P    | SkyReels DF 1.3B   | Skywork/SkyReels-V2-DF-1.3B-540P-Diffusers
chronoedit-14b                 | ChronoEdit 14B              | ChronoEdit         | nvidia/ChronoEdit-14B-Diffusers
hunyuan-1.5-480p-t2v | HunyuanVideo 1.5 480p T2V | HunyuanVideo 1.5 | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v
hunyuan-1.5-480p-i2v | HunyuanVideo 1.5 480p I2V | HunyuanVideo 1.5 I2V | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_i2v
hunyuan-1.5-480p-i2v-step | HunyuanVideo 1.5 480p I2V step-distilled | HunyuanVideo 1.5 I2V | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_i2v_step_distilled
hunyuan-1.5-480p-t2v-distilled | HunyuanVideo 1.5 480p T2V distilled | HunyuanVideo 1.5 | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v_distilled
hunyuan-1.5-480p-i2v-distilled | HunyuanVideo 1.5 480p I2V distilled | HunyuanVideo 1.5 I2V | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_i2v_distilled
hunyuan-1.5-720p-t2v | HunyuanVideo 1.5 720p T2V | HunyuanVideo 1.5 | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-720p_t2v
hunyuan-1.5-720p-i2v | HunyuanVideo 1.5 720p I2V | HunyuanVideo 1.5 I2V | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-720p_i2v
hunyuan-1.5-720p-i2v-distilled | HunyuanVideo 1.5 720p I2V distilled | HunyuanVideo 1.5 I2V | hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-720p_i2v_distilled
z-image                        | Z-Image                     | Z-Image            | Tongyi-MAI/Z-Image                              | unsloth/Z-Image-GGUF
flux.2-klein-base-4b           | FLUX.2 klein base 4B        | klein 4B           | black-forest-labs/FLUX.2-klein-base-4B          | leejet/FLUX.2-klein-base-4B-GGUF | q8_0 q4_0
flux.2-klein-base-9b           | FLUX.2 klein base 9B        | klein 9B           | black-forest-labs/FLUX.2-klein-base-9B          | leejet/FLUX.2-klein-base-9B-GGUF | q8_0 q4_0
`;

/** The models, those that most want first. */
export const CATALOGUE: readonly CatalogueModel[] = MODELS.trim().split("\n").map((line) => {
  const [name, title, kind, repository, gguf, types = USUAL_TYPES] = line.split("|")
    .map((cell) => cell.trim()) as [string, string, string, string, string?, string?];
  const experts = EXPERTS[kind];
  const quantised = gguf === undefined
    ? {}
    : { quantised: { repository: gguf, types: types.split(" "), ...(experts && { experts }) } };
  const goodFor = GOOD_FOR[name];
  return {
    ...KINDS[kind]!,
    ...(goodFor && { goodFor }),
    ...(NEED_IMAGES.includes(name) && EDITS),
    ...{ name, title, repository },
    ...quantised,
  };
});

/** Repositories that hold a model's files. */
export function repositoriesOf({ repository, quantised }: CatalogueModel): string[] {
  return [repository, ...(quantised ? [quantised.repository] : [])];
}

/** Whether a licence forbids to earn money with the model. */
export function isNonCommercial({ licence }: CatalogueModel): boolean {
  return licence.includes("non-commercial");
}
