/** The rows of what steers an image beside its prompt: control pictures, and reference images. */

import type { SamplingSettings } from "../engine/types.ts";
import {
  CONTROL_BALANCES,
  type ControlType,
  type IpAdapterMode,
  REFERENCE_METHODS,
} from "../models/pipeline/settings.ts";
import {
  checkEach,
  checkName,
  checkWord,
  numbersWithin,
  oneOf,
  type SettingField,
  someOf,
  unlessCanny,
  unlessTaken,
} from "./field_values.ts";

const MAX_SCALE = 10;

const CONTROL_TYPES: readonly ControlType[] = ["map", "canny", "inpaint"];

const IP_ADAPTER_MODES: readonly IpAdapterMode[] = ["all", "style", "layout", "style_layout"];

/** Longest gradient that a picture can have. */
const MAX_GRADIENT = 2040;

type Steering = Extract<
  keyof SamplingSettings,
  `control${string}` | `canny${string}` | `ipAdapter${string}` | "referenceMethod"
>;

export const STEERING_FIELDS: {
  readonly [Name in Steering]-?: SettingField<NonNullable<SamplingSettings[Name]>>;
} = {
  controlNet: {
    text:
      "Which ControlNet sees each control picture, by name; the first one sees the first by default, and so on",
    kind: "texts",
    placeholder: "name...",
    check: (value, name) => checkEach(value, name, (each) => checkName(each, name)),
    idle: unlessTaken("controlNet"),
  },
  controlScale: {
    text:
      "Scale of the control picture, 0 to 10, or one scale for each picture; Wan VACE also takes one for each control block",
    ...numbersWithin(0, MAX_SCALE),
    http: ["control_scale", "conditioning_scale", "controlnet_conditioning_scale"],
    placeholder: "scale...",
    idle: unlessTaken("controlScale"),
  },
  controlStart: {
    text:
      "Share of the steps after which the control picture takes effect (default: 0), or one share for each",
    ...numbersWithin(0, 1),
    http: ["control_start", "control_guidance_start"],
    placeholder: "share...",
    idle: unlessTaken("controlStart"),
  },
  controlEnd: {
    text:
      "Share of the steps after which the control picture stops (default: 1), or one share for each",
    ...numbersWithin(0, 1),
    http: ["control_end", "control_guidance_end"],
    placeholder: "share...",
    idle: unlessTaken("controlEnd"),
  },
  controlMode: {
    text:
      "What the control picture shows, such as `canny` or `pose`, for ControlNets with modes; or one mode for each",
    kind: "texts",
    placeholder: "mode...",
    check: (value, name) => checkEach(value, name, (each) => checkWord(each, name)),
    idle: unlessTaken("controlMode"),
  },
  controlBalance: {
    text:
      "`balanced` (default), or what counts more: `prompt`, or `control`, diffusers' `guess_mode` (Stable Diffusion); or one for each",
    ...someOf(CONTROL_BALANCES),
    placeholder: "way...",
    idle: unlessTaken("controlBalance"),
  },
  controlType: {
    text:
      "`map` (default) takes the control picture as it is, `canny` computes its edges, `inpaint` takes the image without what its mask redraws instead of a picture; or one type for each",
    ...someOf(CONTROL_TYPES),
    placeholder: "type...",
    idle: unlessTaken("controlType"),
  },
  cannyLow: {
    text: "Low threshold of the Canny detector, 0 to 2040 (default: 100), or one for each picture",
    ...numbersWithin(0, MAX_GRADIENT),
    placeholder: "gradient...",
    idle: unlessCanny("cannyLow"),
  },
  cannyHigh: {
    text: "High threshold of the Canny detector, 0 to 2040 (default: 200), or one for each picture",
    ...numbersWithin(0, MAX_GRADIENT),
    placeholder: "gradient...",
    idle: unlessCanny("cannyHigh"),
  },
  referenceMethod: {
    text:
      "How LoRAs for edits see reference images (Krea 2): `index` (default) at the timestep of the result, `index_timestep_zero` at timestep 0",
    ...oneOf(REFERENCE_METHODS),
    placeholder: "method",
    idle: unlessTaken("referenceMethod"),
  },
  ipAdapterName: {
    text:
      "Which IP-Adapter sees each reference image, by name; the first one sees the first by default, and so on",
    kind: "texts",
    placeholder: "name...",
    check: (value, name) => checkEach(value, name, (each) => checkName(each, name)),
    idle: unlessTaken("ipAdapterName"),
  },
  ipAdapterScale: {
    text:
      "Scale of the reference images of an IP-Adapter, 0 to 10 (default: 1), or one scale for each image",
    ...numbersWithin(0, MAX_SCALE),
    placeholder: "scale...",
    idle: unlessTaken("ipAdapterScale"),
  },
  ipAdapterMode: {
    text:
      "What results take from the reference images (SDXL): `all` (default), `style`, `layout`, `style_layout`; or one mode for each image",
    ...someOf(IP_ADAPTER_MODES),
    placeholder: "mode...",
    idle: unlessTaken("ipAdapterMode"),
  },
  ipAdapterStart: {
    text:
      "Share of the steps after which reference images take effect (default: 0), or one share for each",
    ...numbersWithin(0, 1),
    placeholder: "share...",
    idle: unlessTaken("ipAdapterStart"),
  },
  ipAdapterEnd: {
    text:
      "Share of the steps after which reference images stop (default: 1), or one share for each",
    ...numbersWithin(0, 1),
    placeholder: "share...",
    idle: unlessTaken("ipAdapterEnd"),
  },
};
