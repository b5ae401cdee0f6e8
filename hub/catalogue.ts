/**
 * Models by name: where their files are, and what they take.
 *
 * Sizes are those of the layers, as docs/models.md has them. Which files a repository of quantised weights has is seen
 * when it is asked; `types` are those that are known of.
 */

/** A model of the hub. */
export interface CatalogueModel {
  /** Name by which the model is called, such as `z-image-turbo`. */
  readonly name: string;
  /** The model's name as its authors write it. */
  readonly title: string;
  /** Name of the family in the program. */
  readonly family: string;
  readonly makes: "images" | "videos";
  /** Licence of the weights. */
  readonly licence: string;
  /** Set where the terms have to be accepted on the repository's page. */
  readonly isGated?: true;
  /** Repository of the whole model in the layout of diffusers, in bf16 or f32. */
  readonly repository: string;
  /** Numbers of a transformer. */
  readonly parameters: number;
  /** What else goes with it. */
  readonly textEncoder: string;
  /** Bytes of the text encoder in bf16, without embeddings. */
  readonly textEncoderBytes: number;
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

const GB = 1e9;
const QWEN3_4B = { textEncoder: "Qwen3-4B", textEncoderBytes: 7.1 * GB };
const QWEN3_8B = { textEncoder: "Qwen3-8B", textEncoderBytes: 10.4 * GB };
const QWEN_VL = { textEncoder: "Qwen2.5-VL-7B", textEncoderBytes: 13.1 * GB };
const UMT5 = { textEncoder: "UMT5-XXL", textEncoderBytes: 9.3 * GB };
const APACHE = { licence: "Apache-2.0" };
const FLUX_NON_COMMERCIAL = { licence: "FLUX non-commercial", isGated: true } as const;
const K_TYPES = ["q8_0", "q6_k", "q5_k", "q4_k", "q3_k"];

const Z_IMAGE = {
  ...{ family: "Z-Image", ...APACHE, parameters: 6.15 * GB, ...QWEN3_4B },
  makes: "images",
  vae: "FLUX.1's",
} as const;
const KLEIN = { family: "FLUX.2", makes: "images", vae: "FLUX.2's" } as const;
// FLUX.2 klein reads three quarters of the layers.
const KLEIN_4B = {
  ...{ ...KLEIN, ...APACHE, parameters: 3.88 * GB, ...QWEN3_4B },
  textEncoderBytes: 5.5 * GB,
} as const;
const KLEIN_9B = { ...KLEIN, ...FLUX_NON_COMMERCIAL, parameters: 9.08 * GB, ...QWEN3_8B } as const;
const KLEIN_TYPES = ["q8_0", "q4_0"];
const FLUX1 = {
  ...{ family: "FLUX.1", parameters: 11.9 * GB, textEncoder: "T5-XXL, CLIP-L" },
  ...{ textEncoderBytes: 9.5 * GB, vae: "FLUX.1's" },
  makes: "images",
} as const;
const CHROMA = {
  ...{ family: "Chroma", ...APACHE, parameters: 8.9 * GB, textEncoder: "T5-XXL" },
  ...{ textEncoderBytes: 9.3 * GB, vae: "FLUX.1's" },
  makes: "images",
} as const;
const WAN = { family: "Wan", makes: "videos", ...APACHE, ...UMT5, vae: "Wan 2.1's" } as const;
const WAN_14B = { ...WAN, parameters: 14.3 * GB } as const;
const WAN_I2V = { ...WAN, parameters: 16.4 * GB } as const;
const QWEN_IMAGE = {
  ...{ family: "Qwen-Image", ...APACHE, parameters: 20.4 * GB, ...QWEN_VL },
  makes: "images",
  vae: "Qwen-Image's",
} as const;
/** With the vision tower. */
const QWEN_IMAGE_EDIT = { ...QWEN_IMAGE, textEncoderBytes: 14.4 * GB } as const;

/** The models, those that most want first. */
export const CATALOGUE: readonly CatalogueModel[] = [
  {
    ...{ name: "z-image-turbo", title: "Z-Image-Turbo", ...Z_IMAGE },
    repository: "Tongyi-MAI/Z-Image-Turbo",
    quantised: {
      repository: "leejet/Z-Image-Turbo-GGUF",
      types: ["q8_0", "q6_k", "q5_0", "q4_k", "q3_k", "q2_k"],
    },
  },
  {
    ...{ name: "flux.2-klein-4b", title: "FLUX.2 klein 4B", ...KLEIN_4B },
    repository: "black-forest-labs/FLUX.2-klein-4B",
    quantised: { repository: "unsloth/FLUX.2-klein-4B-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "wan2.2-ti2v-5b", title: "Wan 2.2 TI2V 5B", ...WAN, parameters: 5 * GB },
    vae: "Wan 2.2's",
    repository: "Wan-AI/Wan2.2-TI2V-5B-Diffusers",
    quantised: { repository: "QuantStack/Wan2.2-TI2V-5B-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "flux.2-klein-9b", title: "FLUX.2 klein 9B", ...KLEIN_9B },
    repository: "black-forest-labs/FLUX.2-klein-9B",
    quantised: { repository: "leejet/FLUX.2-klein-9B-GGUF", types: KLEIN_TYPES },
  },
  {
    ...{ name: "flux.1-schnell", title: "FLUX.1 schnell", ...FLUX1, ...APACHE },
    repository: "black-forest-labs/FLUX.1-schnell",
    isGated: true,
    quantised: { repository: "city96/FLUX.1-schnell-gguf", types: K_TYPES },
  },
  {
    ...{ name: "flux.1-dev", title: "FLUX.1 dev", ...FLUX1, ...FLUX_NON_COMMERCIAL },
    repository: "black-forest-labs/FLUX.1-dev",
    quantised: { repository: "city96/FLUX.1-dev-gguf", types: K_TYPES },
  },
  {
    ...{
      name: "flux.1-kontext-dev",
      title: "FLUX.1 Kontext-dev",
      ...FLUX1,
      ...FLUX_NON_COMMERCIAL,
    },
    repository: "black-forest-labs/FLUX.1-Kontext-dev",
    quantised: { repository: "QuantStack/FLUX.1-Kontext-dev-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "flux.1-krea-dev", title: "FLUX.1 Krea-dev", ...FLUX1, ...FLUX_NON_COMMERCIAL },
    repository: "black-forest-labs/FLUX.1-Krea-dev",
    quantised: { repository: "QuantStack/FLUX.1-Krea-dev-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "flux.1-fill-dev", title: "FLUX.1 Fill-dev", ...FLUX1, ...FLUX_NON_COMMERCIAL },
    repository: "black-forest-labs/FLUX.1-Fill-dev",
    quantised: { repository: "YarvixPA/FLUX.1-Fill-dev-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "flux.1-canny-dev", title: "FLUX.1 Canny-dev", ...FLUX1, ...FLUX_NON_COMMERCIAL },
    repository: "black-forest-labs/FLUX.1-Canny-dev",
  },
  {
    ...{ name: "flux.1-depth-dev", title: "FLUX.1 Depth-dev", ...FLUX1, ...FLUX_NON_COMMERCIAL },
    repository: "black-forest-labs/FLUX.1-Depth-dev",
  },
  {
    ...{ name: "chroma1-hd", title: "Chroma1-HD", ...CHROMA },
    repository: "lodestones/Chroma1-HD",
    quantised: { repository: "silveroxides/Chroma1-HD-GGUF", types: ["q8_0", "q5_k", "q4_k"] },
  },
  {
    ...{ name: "chroma1-base", title: "Chroma1-Base", ...CHROMA },
    repository: "lodestones/Chroma1-Base",
  },
  {
    ...{ name: "qwen-image", title: "Qwen-Image", ...QWEN_IMAGE },
    repository: "Qwen/Qwen-Image",
    quantised: { repository: "QuantStack/Qwen-Image-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "qwen-image-2512", title: "Qwen-Image-2512", ...QWEN_IMAGE },
    repository: "Qwen/Qwen-Image-2512",
    quantised: { repository: "unsloth/Qwen-Image-2512-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "qwen-image-layered", title: "Qwen-Image-Layered", ...QWEN_IMAGE },
    ...{ vae: "its own, with alpha", repository: "Qwen/Qwen-Image-Layered" },
    quantised: { repository: "unsloth/Qwen-Image-Layered-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "qwen-image-edit-2511", title: "Qwen-Image-Edit-2511", ...QWEN_IMAGE_EDIT },
    repository: "Qwen/Qwen-Image-Edit-2511",
    quantised: { repository: "unsloth/Qwen-Image-Edit-2511-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "qwen-image-edit-2509", title: "Qwen-Image-Edit-2509", ...QWEN_IMAGE_EDIT },
    repository: "Qwen/Qwen-Image-Edit-2509",
    quantised: { repository: "QuantStack/Qwen-Image-Edit-2509-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "qwen-image-edit", title: "Qwen-Image-Edit", ...QWEN_IMAGE_EDIT },
    repository: "Qwen/Qwen-Image-Edit",
    quantised: { repository: "QuantStack/Qwen-Image-Edit-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "wan2.1-t2v-1.3b", title: "Wan 2.1 T2V 1.3B", ...WAN, parameters: 1.42 * GB },
    repository: "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
  },
  {
    ...{ name: "fastwan2.1-t2v-1.3b", title: "FastWan 2.1 T2V 1.3B", ...WAN },
    parameters: 1.49 * GB,
    repository: "FastVideo/FastWan2.1-T2V-1.3B-Diffusers",
  },
  {
    ...{ name: "fastwan2.2-ti2v-5b", title: "FastWan 2.2 TI2V 5B", ...WAN, parameters: 5 * GB },
    vae: "Wan 2.2's",
    repository: "FastVideo/FastWan2.2-TI2V-5B-FullAttn-Diffusers",
  },
  {
    ...{ name: "wan2.2-t2v-a14b", title: "Wan 2.2 T2V A14B", ...WAN_14B },
    repository: "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
    quantised: {
      ...{ repository: "QuantStack/Wan2.2-T2V-A14B-GGUF", types: K_TYPES },
      experts: ["HighNoise", "LowNoise"],
    },
  },
  {
    ...{ name: "wan2.2-i2v-a14b", title: "Wan 2.2 I2V A14B", ...WAN_14B },
    repository: "Wan-AI/Wan2.2-I2V-A14B-Diffusers",
    quantised: {
      ...{ repository: "QuantStack/Wan2.2-I2V-A14B-GGUF", types: K_TYPES },
      experts: ["HighNoise", "LowNoise"],
    },
  },
  {
    ...{ name: "wan2.1-t2v-14b", title: "Wan 2.1 T2V 14B", ...WAN_14B },
    repository: "Wan-AI/Wan2.1-T2V-14B-Diffusers",
    quantised: { repository: "city96/Wan2.1-T2V-14B-gguf", types: K_TYPES },
  },
  {
    ...{ name: "wan2.1-i2v-14b-480p", title: "Wan 2.1 I2V 14B 480P", ...WAN_I2V },
    repository: "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers",
    quantised: { repository: "city96/Wan2.1-I2V-14B-480P-gguf", types: K_TYPES },
  },
  {
    ...{ name: "wan2.1-i2v-14b-720p", title: "Wan 2.1 I2V 14B 720P", ...WAN_I2V },
    repository: "Wan-AI/Wan2.1-I2V-14B-720P-Diffusers",
    quantised: { repository: "city96/Wan2.1-I2V-14B-720P-gguf", types: K_TYPES },
  },
  {
    ...{ name: "wan2.1-flf2v-14b-720p", title: "Wan 2.1 FLF2V 14B 720P", ...WAN_I2V },
    repository: "Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers",
    quantised: { repository: "city96/Wan2.1-FLF2V-14B-720P-gguf", types: K_TYPES },
  },
  {
    ...{ name: "wan2.2-animate-2-14b", title: "Wan-Animate-2 14B", ...WAN_I2V },
    repository: "Wan-AI/Wan2.2-Animate-2-14B-Diffusers",
  },
  {
    ...{ name: "wan2.2-animate-2-14b-distilled", title: "Wan-Animate-2 14B distilled", ...WAN_I2V },
    repository: "Wan-AI/Wan2.2-Animate-2-14B-Distilled-Diffusers",
  },
  {
    ...{ name: "wan2.1-vace-1.3b", title: "Wan 2.1 VACE 1.3B", ...WAN, parameters: 2.15 * GB },
    repository: "Wan-AI/Wan2.1-VACE-1.3B-diffusers",
  },
  {
    ...{ name: "wan2.1-vace-14b", title: "Wan 2.1 VACE 14B", ...WAN, parameters: 17.3 * GB },
    repository: "Wan-AI/Wan2.1-VACE-14B-diffusers",
    quantised: { repository: "QuantStack/Wan2.1_14B_VACE-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "z-image", title: "Z-Image", ...Z_IMAGE, repository: "Tongyi-MAI/Z-Image" },
    quantised: { repository: "unsloth/Z-Image-GGUF", types: K_TYPES },
  },
  {
    ...{ name: "flux.2-klein-base-4b", title: "FLUX.2 klein base 4B", ...KLEIN_4B },
    repository: "black-forest-labs/FLUX.2-klein-base-4B",
    quantised: { repository: "leejet/FLUX.2-klein-base-4B-GGUF", types: KLEIN_TYPES },
  },
  {
    ...{ name: "flux.2-klein-base-9b", title: "FLUX.2 klein base 9B", ...KLEIN_9B },
    repository: "black-forest-labs/FLUX.2-klein-base-9B",
    quantised: { repository: "leejet/FLUX.2-klein-base-9B-GGUF", types: KLEIN_TYPES },
  },
];

/** A ControlNet of the hub. */
export interface CatalogueControlNet {
  /** Name by which the ControlNet is called, such as `qwen-image-controlnet-union`. */
  readonly name: string;
  /** Name of the family that it steers, in the program. */
  readonly family: string;
  readonly licence: string;
  /** A repository, or a file of one: `org/name:file`. */
  readonly source: string;
  readonly parameters: number;
}

const FLUX1_CONTROL = { family: "FLUX.1", licence: FLUX_NON_COMMERCIAL.licence };
const Z_IMAGE_CONTROL = { family: "Z-Image", ...APACHE };
const ALIBABA = "alibaba-pai/Z-Image-Turbo-Fun-Controlnet-Union";

/** The ControlNet of a name, in whatever case. */
export function controlNetNamed(name: string): CatalogueControlNet | undefined {
  return CONTROLNETS.find((each) => each.name === name.toLowerCase());
}

/** ControlNets, which are parts of models and none by themselves. */
export const CONTROLNETS: readonly CatalogueControlNet[] = [
  {
    ...{ name: "flux.1-controlnet-union-pro-2.0", ...FLUX1_CONTROL, parameters: 2.14 * GB },
    source: "Shakker-Labs/FLUX.1-dev-ControlNet-Union-Pro-2.0",
  },
  {
    ...{ name: "flux.1-controlnet-union-pro", ...FLUX1_CONTROL, parameters: 3.3 * GB },
    source: "Shakker-Labs/FLUX.1-dev-ControlNet-Union-Pro",
  },
  {
    ...{ name: "flux.1-controlnet-union", ...FLUX1_CONTROL, parameters: 3.3 * GB },
    source: "InstantX/FLUX.1-dev-Controlnet-Union",
  },
  {
    ...{ name: "qwen-image-controlnet-union", family: "Qwen-Image", ...APACHE },
    ...{ parameters: 1.77 * GB, source: "InstantX/Qwen-Image-ControlNet-Union" },
  },
  {
    ...{ name: "qwen-image-controlnet-inpainting", family: "Qwen-Image", ...APACHE },
    ...{ parameters: 2.12 * GB, source: "InstantX/Qwen-Image-ControlNet-Inpainting" },
  },
  {
    ...{ name: "z-image-turbo-controlnet-union-2.1", ...Z_IMAGE_CONTROL, parameters: 3.36 * GB },
    source: `${ALIBABA}-2.1:Z-Image-Turbo-Fun-Controlnet-Union-2.1.safetensors`,
  },
  {
    ...{ name: "z-image-turbo-controlnet-union", ...Z_IMAGE_CONTROL, parameters: 1.55 * GB },
    source: `${ALIBABA}:Z-Image-Turbo-Fun-Controlnet-Union.safetensors`,
  },
];
