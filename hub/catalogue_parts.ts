/** Parts by name: ControlNets, IP-Adapters, upscalers, frame interpolators, tiny decoders. */

import { APACHE, FLUX_LICENCE, SD3 } from "./catalogue.ts";

/** What parts of models there are. */
export const PART_KINDS = [
  ...["controlnet", "ipAdapter", "upscaler", "frameInterpolator", "tinyDecoder"] as const,
] as const;

/** A part of models that is none by itself. */
export interface CataloguePart {
  /** Name by which it is called, such as `qwen-image-controlnet-union`. */
  readonly name: string;
  readonly part: typeof PART_KINDS[number];
  /** Names of the families that it is for, in the program; empty for all. */
  readonly families: readonly string[];
  /** Names of models of these families that it does not fit. */
  readonly notFor?: readonly string[];
  readonly licence: string;
  /** A repository, or a file of one: `org/name:file`. */
  readonly source: string;
  /** About how long its files are. */
  readonly bytes: number;
}

/** Parts that models take of the cache where no other one is named: what they make stays the same until a request asks for them. */
export const AUTOMATIC_PARTS = [
  ...["upscaler", "frameInterpolator", "tinyDecoder"] as const,
] as const satisfies readonly CataloguePart["part"][];

/** What parts are, in words. */
export const PART_WORDS: Readonly<Record<CataloguePart["part"], string>> = {
  controlnet: "a ControlNet",
  ipAdapter: "an IP-Adapter",
  upscaler: "an upscaler",
  frameInterpolator: "a frame interpolator",
  tinyDecoder: "a tiny decoder",
};

const FLUX1_CONTROL = { families: ["FLUX.1"], licence: FLUX_LICENCE.licence };
const SDXL_CONTROL = { families: ["SDXL"], ...APACHE };
const Z_IMAGE_CONTROL = { families: ["Z-Image"], ...APACHE };
const ALIBABA = "alibaba-pai/Z-Image-Turbo-Fun-Controlnet-Union";

/** The part of a name, in whatever case. */
export function partNamed(name: string): CataloguePart | undefined {
  return CATALOGUE_PARTS.find((each) => each.name === name.toLowerCase());
}

const CONTROLNET_ROWS: readonly Omit<CataloguePart, "part">[] = [
  // lllyasviel's, each a folder of diffusers in a repository of its own.
  ...[
    ...["v11p_sd15_canny", "v11f1p_sd15_depth", "v11p_sd15_openpose", "v11p_sd15_lineart"],
    ...["v11p_sd15_softedge", "v11p_sd15_scribble", "v11p_sd15_normalbae", "v11p_sd15_seg"],
    ...["v11p_sd15_mlsd", "v11p_sd15_inpaint", "v11f1e_sd15_tile", "v11e_sd15_shuffle"],
    ...["v11e_sd15_ip2p", "v11p_sd15s2_lineart_anime"],
  ].map((name) => ({
    name: `control_${name}`,
    families: ["SD 1 or SD 2"],
    licence: "CreativeML Open RAIL-M",
    bytes: 722e6,
    source: `lllyasviel/control_${name}`,
  })),
  {
    name: "sdxl-controlnet-union-promax",
    ...SDXL_CONTROL,
    bytes: 2.52e9,
    source: "xinsir/controlnet-union-sdxl-1.0:diffusion_pytorch_model_promax.safetensors",
  },
  {
    name: "sdxl-controlnet-union",
    ...SDXL_CONTROL,
    bytes: 2.52e9,
    source: "xinsir/controlnet-union-sdxl-1.0:diffusion_pytorch_model.safetensors",
  },
  {
    name: "sdxl-controlnet-canny",
    ...SDXL_CONTROL,
    bytes: 2.5e9,
    source: "xinsir/controlnet-canny-sdxl-1.0:diffusion_pytorch_model.safetensors",
  },
  ...["canny", "lineart", "sketch", "openpose", "depth-midas", "depth-zoe"].map((kind) => ({
    name: `sdxl-t2i-adapter-${kind}`,
    ...SDXL_CONTROL,
    bytes: 158e6,
    source: `TencentARC/t2i-adapter-${kind}-sdxl-1.0`,
  })),
  {
    name: "flux.1-controlnet-union-pro-2.0",
    ...FLUX1_CONTROL,
    bytes: 4.28e9,
    source: "Shakker-Labs/FLUX.1-dev-ControlNet-Union-Pro-2.0",
  },
  {
    name: "flux.1-controlnet-union-pro",
    ...FLUX1_CONTROL,
    bytes: 6.6e9,
    source: "Shakker-Labs/FLUX.1-dev-ControlNet-Union-Pro",
  },
  {
    name: "flux.1-controlnet-union",
    ...FLUX1_CONTROL,
    bytes: 6.6e9,
    source: "InstantX/FLUX.1-dev-Controlnet-Union",
  },
  ...["canny", "depth", "blur"].map((kind) => ({
    name: `sd-3.5-large-controlnet-${kind}`,
    families: ["SD 3"],
    licence: SD3.licence,
    bytes: 4.3e9,
    source: `stabilityai/stable-diffusion-3.5-large-controlnet-${kind}`,
  })),
  {
    name: "qwen-image-controlnet-union",
    families: ["Qwen-Image"],
    ...APACHE,
    bytes: 3.54e9,
    source: "InstantX/Qwen-Image-ControlNet-Union",
  },
  {
    name: "qwen-image-controlnet-inpainting",
    families: ["Qwen-Image"],
    ...APACHE,
    bytes: 4.24e9,
    source: "InstantX/Qwen-Image-ControlNet-Inpainting",
  },
  {
    name: "z-image-turbo-controlnet-union-2.1",
    ...Z_IMAGE_CONTROL,
    bytes: 6.72e9,
    source: `${ALIBABA}-2.1:Z-Image-Turbo-Fun-Controlnet-Union-2.1.safetensors`,
  },
  {
    name: "z-image-turbo-controlnet-union",
    ...Z_IMAGE_CONTROL,
    bytes: 3.1e9,
    source: `${ALIBABA}:Z-Image-Turbo-Fun-Controlnet-Union.safetensors`,
  },
];

export const CONTROLNETS: readonly CataloguePart[] = CONTROLNET_ROWS.map((row) => ({
  ...row,
  part: "controlnet",
}));

/** Files of h94/IP-Adapter, whose image encoders lie beside them, with their parameters in millions. */
const IP_ADAPTER_FILES = {
  models: { "_sd15": 22, "-plus_sd15": 49, "-plus-face_sd15": 49, "-full-face_sd15": 22 },
  sdxl_models: {
    ...{ "_sdxl_vit-h": 349, "-plus_sdxl_vit-h": 424, "-plus-face_sdxl_vit-h": 424, "_sdxl": 351 },
  },
};

export const IP_ADAPTERS: readonly CataloguePart[] = Object.entries(IP_ADAPTER_FILES).flatMap(
  ([folder, files]) =>
    Object.entries(files).map(([kind, millions]) => ({
      part: "ipAdapter" as const,
      name: `ip-adapter${kind}`,
      families: [folder === "models" ? "SD 1 or SD 2" : "SDXL"],
      ...APACHE,
      bytes: 2e6 * millions,
      source: `h94/IP-Adapter:${folder}/ip-adapter${kind}.safetensors`,
    })),
);

const TINY_DECODER = { part: "tinyDecoder", licence: "MIT" } as const;

const OTHER_PARTS: readonly CataloguePart[] = [
  {
    part: "upscaler",
    name: "realesrgan_x4plus",
    families: [],
    licence: "BSD-3-Clause",
    bytes: 67e6,
    source: "Comfy-Org/Real-ESRGAN_repackaged:RealESRGAN_x4plus.safetensors",
  },
  ...["4.25", "4.26"].map((version) => ({
    part: "frameInterpolator" as const,
    name: `rife_v${version}`,
    families: [],
    licence: "MIT",
    bytes: 22e6,
    source: `Comfy-Org/frame_interpolation:frame_interpolation/rife_v${version}.safetensors`,
  })),
  {
    ...TINY_DECODER,
    name: "taew2_1",
    families: ["Wan", "Qwen-Image", "Krea 2", "Anima"],
    notFor: ["wan2.2-ti2v-5b", "fastwan2.2-ti2v-5b"],
    bytes: 23e6,
    source: "Kijai/WanVideo_comfy:taew2_1.safetensors",
  },
  ...Object.entries({
    taesd: ["SD 1 or SD 2"],
    taesdxl: ["SDXL"],
    taesd3: ["SD 3"],
    taef1: ["FLUX.1", "Z-Image", "Chroma"],
  }).map(([name, families]) => ({
    ...{ ...TINY_DECODER, name, families, bytes: 10e6 },
    source: `madebyollin/${name}:diffusion_pytorch_model.safetensors`,
  })),
];

export const CATALOGUE_PARTS: readonly CataloguePart[] = [
  ...CONTROLNETS,
  ...IP_ADAPTERS,
  ...OTHER_PARTS,
];
