/** Units of WebUI's ControlNet extension (`alwayson_scripts.controlnet`), in the words of this server. */

import { z } from "zod";
import type { ModelInfo } from "../../engine/types.ts";
import { checkControlCount } from "../../generation/control.ts";
import { shorten } from "../../generation/texts.ts";
import { CANNY } from "../../models/pipeline/control_units.ts";
import type { ControlBalance, ControlType } from "../../models/pipeline/settings.ts";
import { asClientError, validate } from "../contract/validate.ts";
import { badRequest } from "../contract/errors.ts";
import { text } from "../contract/generation_fields.ts";

/** Where errors say the mistake is. */
const FIELD = "alwayson_scripts";

const image = z.string().nullish();
const name = text();
const share = z.number().nullish();
const choice = z.union([z.int(), z.string()]).nullish();

/** What is read of a unit; what else there is changes nothing here, such as `pixel_perfect` and `lowvram`. */
const unitSchema = z.looseObject({
  enabled: z.boolean().nullish(),
  image: z.union([image, z.looseObject({ image })]),
  input_image: image,
  mask: image,
  effective_region_mask: image,
  module: name,
  model: name,
  weight: share,
  resize_mode: choice,
  threshold_a: share,
  threshold_b: share,
  guidance_start: share,
  guidance_end: share,
  control_mode: choice,
  union_control_type: name,
});

const scriptsSchema = z.record(z.string(), z.unknown());
const argumentsSchema = z.looseObject({ args: z.array(z.unknown()).nullish() });

/** The version of the extension's API whose units are read. */
export const UNITS_VERSION = 2;

/** Preprocessors of control pictures: the picture as it is, its edges, or the image of img2img without what its mask redraws. */
const CONTROL_MODULES: ReadonlyMap<string, ControlType> = new Map([
  ["none", "map"],
  ["canny", "canny"],
  ...["inpaint", "inpaint_only", "inpaint_global_harmonious"]
    .map((name) => [name, "inpaint"] as const),
]);

/** Preprocessors that make a unit's image one for an IP-Adapter; the file itself says which encoder it needs. */
const SEEING_MODULE = /^ip-adapter/;
const FACE_MODULE = /face_?id|pulid/;

/** What clients may choose as a unit's preprocessor. */
export function unitModules({ optionalParts, controlsInpainting }: ModelInfo): string[] {
  const own = [...CONTROL_MODULES].filter(([, type]) => type !== "inpaint" || controlsInpainting);
  return [
    ...own.map(([name]) => name),
    ...optionalParts.includes("ipAdapter") ? ["ip-adapter-auto"] : [],
  ];
}

/** What clients may choose as a unit's model: ControlNets and the IP-Adapters that the model was started with. */
export function unitModels(
  { ipAdapters = [], controlNets, controlsByMask }: ModelInfo,
): string[] {
  return [
    ...controlsByMask ? [] : controlNets.map(({ name }) => name),
    ...ipAdapters.map(({ name }) => name),
  ];
}

/** The kinds of units that clients offer, each with the preprocessors and the models that it may have. */
export function unitTypes(info: ModelInfo): Record<string, unknown> {
  const [modules, models] = [unitModules(info), unitModels(info)];
  const adapters = models.slice(info.controlsByMask ? 0 : info.controlNets.length);
  const nets = models.slice(0, models.length - adapters.length);
  const kinds: readonly (readonly [kind: string, fits: RegExp, models: readonly string[]])[] = [
    ["All", /./, models],
    ["Canny", /^canny$/, nets],
    ["Inpaint", /^inpaint/, nets],
    ["IP-Adapter", SEEING_MODULE, adapters],
  ];
  return Object.fromEntries(
    kinds.flatMap(([kind, fits, ownModels]) => {
      const own = modules.filter((module) => fits.test(module));
      if (kind !== "All" && (own.length === 0 || ownModels.length === 0)) return [];
      return [[kind, {
        module_list: kind === "All" ? own : ["none", ...own],
        model_list: ["None", ...ownModels],
        default_option: kind === "All" ? "none" : own[0]!,
        default_model: kind === "All" ? "None" : ownModels[0]!,
      }]];
    }),
  );
}

/** Ways in which a picture meets the size of the result, by number. */
const FITS = ["stretch", "cover", "contain"] as const;
/** Names of the ways to resize, in the order of their numbers. */
const RESIZE_NAMES = ["just resize", "crop and resize", "resize and fill"];
/** How prompt and picture share the work, by number. */
const BALANCES: readonly (readonly [string, ControlBalance])[] = [
  ["balanced", "balanced"],
  ["my prompt is more important", "prompt"],
  ["controlnet is more important", "control"],
];

/** Words in the names of preprocessors and kinds of maps, and what Union ControlNets of FLUX.1 and SDXL call such a map. */
const MODES: readonly (readonly [RegExp, string])[] = [
  [/pose/, "pose"],
  [/pose/, "openpose"],
  [/depth/, "depth"],
  [/canny|lineart|mlsd|hard edge/, "canny"],
  [/soft edge|hed|pidi|scribble/, "scribble"],
  [/normal/, "normal"],
  [/seg/, "segment"],
  [/inpaint/, "repaint"],
  [/tile/, "tile"],
  [/blur/, "blur"],
  [/gr[ae]y|recolor/, "gray"],
];

export interface ReadScripts {
  /** Fields of `/v1/images/generations`; none without a unit that is on. */
  readonly fields: Record<string, unknown>;
  /** Whether there are scripts that nothing here runs. */
  readonly hasOthers: boolean;
}

/** Reads `alwayson_scripts`; the first of `images` stands for the picture of a unit without one. */
export function readScripts(
  scripts: unknown,
  info: ModelInfo,
  images: readonly string[],
): ReadScripts {
  if (scripts === null || scripts === undefined) return { fields: {}, hasOthers: false };
  const given = Object.entries(validate(scriptsSchema, scripts));
  const isControl = (script: string) => /^controlnet$/i.test(script);
  const units = given.filter(([script]) => isControl(script)).flatMap(([, value]) =>
    // Some clients send a unit that is null for each that is off.
    (validate(argumentsSchema, value).args ?? []).filter((unit) => unit !== null)
  ).map((unit) => validate(unitSchema, unit)).filter(({ enabled }) => enabled !== false);
  const hasOthers = given.some(([script]) => !isControl(script));
  const seeing = units.filter((unit) => SEEING_MODULE.test(moduleOf(unit)));
  const steering = units.filter((unit) => !seeing.includes(unit));
  const fields = {
    ...steering.length > 0 && fieldsOf(steering, info, images),
    ...seeing.length > 0 && referenceFields(seeing, info, images),
  };
  return { fields, hasOthers };
}

type Unit = z.output<typeof unitSchema>;

function moduleOf({ module }: Unit): string {
  return (module ?? "none").toLowerCase();
}

function balanceOf({ control_mode: given }: Unit): ControlBalance {
  const name = typeof given === "string" ? given.toLowerCase() : BALANCES[given ?? 0]?.[0];
  const known = BALANCES.find(([own]) => own === name);
  if (known) return known[1];
  throw refused(`control_mode ${shorten(String(given))}: it can be 0 to ${BALANCES.length - 1}`);
}

/** The address of a unit's image. */
function pictureOf(unit: Unit, images: readonly string[]): string {
  const own = typeof unit.image === "string" ? unit.image : unit.image?.image;
  const picture = own || unit.input_image || images[0];
  if (!picture) throw refused("a unit without a picture: send it in image");
  if (unit.mask) {
    throw refused(
      "the mask of a unit: the whole picture counts; omit mask, or send where the result shows the image of an ip-adapter unit " +
        "as effective_region_mask",
    );
  }
  return addressOf(picture);
}

function addressOf(picture: string): string {
  return /^(?:data:|https?:)/i.test(picture) ? picture : `data:image/png;base64,${picture}`;
}

/** Units of IP-Adapters: an image each; the effective region of a unit says where it is seen. */
function referenceFields(
  units: readonly Unit[],
  { ipAdapters = [] }: ModelInfo,
  images: readonly string[],
): Record<string, unknown> {
  if (ipAdapters.length === 0) {
    throw refused(
      "an ip-adapter unit: the model has none; name its file with --ip-adapter at the start",
    );
  }
  if (units.some((unit) => balanceOf(unit) !== "balanced")) {
    throw refused("control_mode of an ip-adapter unit: 0, 'Balanced', is what is done here");
  }
  if (units.some((unit) => [unit["advanced_weighting"] ?? []].flat().length > 0)) {
    throw refused("advanced_weighting: an ip-adapter unit has one weight here; omit it");
  }
  const face = units.find((unit) => FACE_MODULE.test(moduleOf(unit)));
  if (face) {
    throw refused(
      `the preprocessor '${
        shorten(moduleOf(face))
      }': it recognises faces, which nothing here does; use a plus-face IP-Adapter with 'ip-adapter-auto'`,
    );
  }
  const masks = units.map(({ effective_region_mask: mask }) => mask ? addressOf(mask) : undefined);
  return {
    reference: units.map((unit) => pictureOf(unit, images)),
    reference_mask: masks.some((mask) => mask !== undefined)
      ? masks.map((mask) => mask ?? EVERYWHERE)
      : undefined,
    ip_adapter_name: ipAdapters.length > 1
      ? units.map((unit, i) => named(unit, i, ipAdapters).name)
      : undefined,
    ip_adapter_scale: each(units.map(({ weight }) => weight), 1),
    ip_adapter_start: each(units.map(({ guidance_start: start }) => start), 0),
    ip_adapter_end: each(units.map(({ guidance_end: end }) => end), 1),
  };
}

/** A mask that is white everywhere, for units without one beside units that have one. */
const EVERYWHERE = "data:image/png;base64," +
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==";

/** A list of what each unit says; nothing where none says it. */
function each<T>(values: readonly (T | null | undefined)[], usual: T): T[] | undefined {
  return values.some((value) => value !== null && value !== undefined)
    ? values.map((value) => value ?? usual)
    : undefined;
}

function fieldsOf(
  units: readonly Unit[],
  info: ModelInfo,
  images: readonly string[],
): Record<string, unknown> {
  asClientError(FIELD, () => checkControlCount(units.length, info));
  const read = units.map((unit, i) => readUnit(unit, netOf(unit, i, info.controlNets), images));
  const fits = new Set(read.map(({ fit }) => fit));
  if (fits.size > 1) {
    throw refused("units of several resize_mode: all pictures come to the size in one way");
  }
  const types = read.map(({ type }) => type);
  const hasCanny = types.includes("canny");
  const balances = units.map(balanceOf);
  if (
    balances.some((balance) => balance !== "balanced") &&
    !info.optionalSettings.includes("controlBalance")
  ) {
    throw refused("another control_mode than 0, 'Balanced': only Stable Diffusion has others here");
  }
  return {
    control: read.flatMap(({ picture }) => picture ?? []),
    control_net: info.controlNets.length > 1 ? read.map(({ net }) => net) : undefined,
    control_type: types.some((type) => type !== "map") ? types : undefined,
    control_balance: balances.some((balance) => balance !== "balanced") ? balances : undefined,
    control_mode: each(read.map(({ mode }) => mode), "none"),
    control_scale: each(units.map(({ weight }) => weight), 1),
    control_start: each(units.map(({ guidance_start: start }) => start), 0),
    control_end: each(units.map(({ guidance_end: end }) => end), 1),
    // Negative ones stand for the usual.
    ...(hasCanny && {
      canny_low: each(units.map(({ threshold_a: low }) => positive(low)), CANNY.low),
      canny_high: each(units.map(({ threshold_b: high }) => positive(high)), CANNY.high),
    }),
    fit: read[0]!.fit,
  };
}

/** The ControlNet of a unit. */
function netOf(unit: Unit, i: number, nets: ModelInfo["controlNets"]) {
  return nets.length < 2 ? nets[0] : named(unit, i, nets);
}

/** Of several the one that a unit names, or that of its place. */
function named<Net extends { readonly name: string }>(
  { model }: Unit,
  i: number,
  nets: readonly Net[],
): Net {
  // Clients show a part of the file's hash behind its name.
  const wanted = (model ?? "").replace(/\[[0-9a-f]+\]$/i, "").trimEnd();
  const net = wanted === "" || wanted === "None"
    ? nets[i]
    : nets.find(({ name }) => name === wanted);
  if (net) return net;
  throw refused(
    `the model '${shorten(wanted || "None")}' of unit ${i + 1}: there are ${
      nets.map(({ name }) => name).join(", ")
    }`,
  );
}

function readUnit(
  unit: Unit,
  net: ModelInfo["controlNets"][number] | undefined,
  images: readonly string[],
) {
  if (unit.effective_region_mask) {
    throw refused("the effective_region_mask of a unit: only ip-adapter units have one here");
  }
  const type = CONTROL_MODULES.get(moduleOf(unit));
  if (!type) {
    throw refused(
      `the preprocessor '${
        shorten(moduleOf(unit))
      }': canny is made here; send the map that it makes, with module 'none'`,
    );
  }
  const picture = pictureOf(unit, images);
  return {
    picture: type === "inpaint" ? undefined : picture,
    net: net?.name,
    type,
    mode: modeOf(unit.union_control_type, type === "canny", net?.modes),
    fit: fitOf(unit.resize_mode ?? 1),
  };
}

/** What the picture shows, where the ControlNet asks. */
function modeOf(
  kind: string | null | undefined,
  isCanny: boolean,
  modes: readonly string[] | undefined,
): string | undefined {
  if (!modes) return undefined;
  if (isCanny && !kind) return "canny";
  const wanted = (kind ?? "").toLowerCase();
  const mode = modes.find((own) => own === wanted) ??
    MODES.find(([words, mode]) => words.test(wanted) && modes.includes(mode))?.[1];
  if (mode !== undefined) return mode;
  throw refused(
    `union_control_type ${
      kind ? `'${shorten(kind)}'` : "that is missing"
    }: this ControlNet asks what the picture ` +
      `shows, one of ${modes.join(", ")}`,
  );
}

function fitOf(mode: number | string): typeof FITS[number] {
  const index = typeof mode === "number" ? mode : RESIZE_NAMES.indexOf(mode.toLowerCase());
  const fit = FITS[index];
  if (fit) return fit;
  throw refused(`resize_mode ${shorten(String(mode))}: it can be 0 to ${FITS.length - 1}`);
}

function positive(value: number | null | undefined): number | undefined {
  return typeof value === "number" && value >= 0 ? value : undefined;
}

function refused(what: string) {
  return badRequest(`Cannot use of alwayson_scripts.controlnet ${what}`, FIELD);
}
