/** From the bodies of requests about LoRAs to what has to be done, with every mistake that needs no look at a file. */

import { shorten } from "../../generation/texts.ts";
import { checkChoice, readScalars, validate } from "./validate.ts";
import { badRequest } from "./errors.ts";
import { type FieldTable, ignoredFields, refuseField } from "./fields.ts";
import { flag, type LoraItem, MAX_TEXT_LENGTH, number, text } from "./generation_fields.ts";
import {
  LORA_TARGETS,
  type LoraTargetName,
  MERGE_MODES,
  type MergeMode,
} from "../../generation/lora_words.ts";
import { z } from "zod";

const MAX_LORAS = 16;

const MAX_NICKNAME_LENGTH = 200;

export interface AskedLora {
  /** What clients call it; of no use without a path unless it was set before. */
  readonly nickname?: string;
  readonly path?: string;
  readonly alpha?: number;
  /** 0 leaves the model as it is, 1 is as trained. */
  readonly strength: number;
  readonly target: LoraTargetName;
  readonly mode: MergeMode;
}

/** A LoRA that was found; a JSON value. */
export interface JobLora extends AskedLora {
  readonly path: string;
  readonly file: string;
}

export interface SetLoras {
  /** LoRAs in the order in which they are applied. */
  readonly loras: readonly (AskedLora & { readonly nickname: string })[];
  /** Whether keys that fit no layer are an error. */
  readonly isStrict: boolean;
  /** Says what was set, in the reference's words. */
  readonly message: string;
  readonly ignored: readonly string[];
}

/** A request to merge or to unmerge what is set. */
export interface ChangeLoras {
  readonly target: LoraTargetName;
  /** Strength of every LoRA from then on, or of a merge. */
  readonly strength: number;
  /** Says what was done, in the reference's words. */
  readonly message: string;
  readonly ignored: readonly string[];
}

/** What counts where a request says nothing. */
interface LoraPolicy {
  readonly loraMergeMode: MergeMode;
  readonly strictFields: boolean;
}

export function readSetLora(json: unknown, policy: LoraPolicy): SetLoras {
  const body = validate(setLoraSchema, readScalars(json, setLoraSchema));
  const ignored = findIgnored(body, "set", policy);
  const nicknames = [body.lora_nickname].flat();
  const count = nicknames.length;
  if (count === 0 || count > MAX_LORAS) {
    throw badRequest(`Name 1 to ${MAX_LORAS} LoRAs, not ${count}`, "lora_nickname");
  }
  for (const nickname of nicknames) checkNickname(nickname, "lora_nickname");
  // A path is never meant for several: it is not spread as the other fields are.
  const paths = [body.lora_path ?? (count === 1 ? null : new Array<null>(count).fill(null))].flat();
  checkLength("lora_path", paths, count, ". Provide one path per nickname.");
  const tooLong = paths.find((path) => path !== null && path.length > MAX_TEXT_LENGTH);
  if (tooLong) {
    throw badRequest(
      `Cannot find a LoRA by a path of ${tooLong.length} characters: it has at most ${MAX_TEXT_LENGTH}`,
      "lora_path",
    );
  }
  const targets = spread("target", body.target ?? "all", count);
  const strengths = spread("strength", body.strength ?? 1, count);
  const alphas = spread("lora_alpha", body.lora_alpha ?? null, count);
  checkTargets(targets);
  if (alphas.some((alpha) => alpha !== null && alpha <= 0)) {
    throw badRequest("lora_alpha values must be positive integers or null", "lora_alpha");
  }
  const mode = readMode(body.merge_mode, policy);
  refuseTwice(nicknames, targets);
  const pathOf = pathsByNickname(nicknames, paths);
  const loras = nicknames.map((nickname, index) => ({
    nickname,
    ...(pathOf.has(nickname) ? { path: pathOf.get(nickname)! } : {}),
    ...(alphas[index] ? { alpha: alphas[index] } : {}),
    strength: strengths[index]!,
    target: targets[index] as LoraTargetName,
    mode,
  }));
  return { loras, isStrict: body.strict === true, message: describe(body), ignored };
}

export function readMergeLora(json: unknown, policy: LoraPolicy): ChangeLoras {
  const body = validate(mergeLoraSchema, readScalars(json, mergeLoraSchema));
  const { target, strength } = { target: body.target ?? "all", strength: body.strength ?? 1 };
  checkTargets([target]);
  const text = Number.isInteger(strength) ? strength.toFixed(1) : String(strength);
  return {
    target: target as LoraTargetName,
    strength,
    message: `Successfully merged LoRA weights (target: ${target}, strength: ${text})`,
    ignored: findIgnored(body, "merge", policy),
  };
}

export function readUnmergeLora(json: unknown, policy: LoraPolicy): ChangeLoras {
  const body = validate(unmergeLoraSchema, readScalars(json, unmergeLoraSchema));
  const target = body.target ?? "all";
  checkTargets([target]);
  return {
    target: target as LoraTargetName,
    strength: 1,
    message: `Successfully unmerged LoRA weights (target: ${target})`,
    ignored: findIgnored(body, "unmerge", policy),
  };
}

/** Reads the LoRAs that a generation names; `mode` is for those that do not say. */
export function readLoraItems(items: readonly LoraItem[], mode: MergeMode): AskedLora[] {
  if (items.length > MAX_LORAS) {
    throw badRequest(`Cannot use ${items.length} LoRAs: at most ${MAX_LORAS} at once`, "loras");
  }
  return items.map(({ nickname, path, alpha, strength, target, merge_mode }) => {
    if (!nickname && !path) {
      throw badRequest("Cannot use a LoRA of loras: give its nickname or its path", "loras");
    }
    if (nickname) checkNickname(nickname, "loras");
    checkTargets([target ?? "all"], "loras");
    checkChoice("merge_mode", merge_mode, MERGE_MODES);
    if (typeof alpha === "number" && alpha <= 0) {
      throw badRequest(`Cannot use alpha ${alpha}: it must be a positive integer`, "loras");
    }
    return {
      ...(nickname ? { nickname } : {}),
      ...(path ? { path } : {}),
      ...(alpha ? { alpha } : {}),
      strength: strength ?? 1,
      target: (target ?? "all") as LoraTargetName,
      mode: (merge_mode ?? mode) as MergeMode,
    };
  });
}

function findIgnored(
  body: Readonly<Record<string, unknown>>,
  name: keyof typeof loraFieldTables,
  { strictFields }: LoraPolicy,
): string[] {
  const ignored = ignoredFields(body, loraFieldTables[name]);
  if (strictFields && ignored[0] !== undefined) refuseField(ignored[0], loraFieldTables[name]);
  return ignored;
}

function readMode(mode: string | null | undefined, { loraMergeMode }: LoraPolicy): MergeMode {
  if (!mode) return loraMergeMode;
  if (MERGE_MODES.some((known) => known === mode)) return mode as MergeMode;
  throw badRequest(
    `Invalid LoRA merge mode: ${shorten(mode)}. Valid modes: ('auto', 'merge', 'dynamic')`,
    "merge_mode",
  );
}

function checkNickname(nickname: string, param: string): void {
  if (nickname.trim() !== "" && nickname.length <= MAX_NICKNAME_LENGTH) return;
  throw badRequest(
    `A nickname has 1 to ${MAX_NICKNAME_LENGTH} characters, not ${nickname.length}`,
    param,
  );
}

/** Refuses a second strength of a LoRA on a component. */
function refuseTwice(nicknames: readonly string[], targets: readonly string[]): void {
  for (const [index, nickname] of nicknames.entries()) {
    const others = targets.slice(0, index).filter((_, other) => nicknames[other] === nickname);
    const meant = [targets[index], "all"];
    if (others.some((other) => targets[index] === "all" || meant.includes(other))) {
      throw badRequest(`LoRA ${nickname} is named twice for one target`, "lora_nickname");
    }
  }
}

/** A nickname that comes for several targets needs its path once. */
function pathsByNickname(
  nicknames: readonly string[],
  paths: readonly (string | null)[],
): Map<string, string> {
  const found = new Map<string, string>();
  for (const [index, nickname] of nicknames.entries()) {
    const path = paths[index] || found.get(nickname);
    if (path === undefined) continue;
    if (found.has(nickname) && found.get(nickname) !== path) {
      throw badRequest(`LoRA ${nickname} is given two paths`, "lora_path");
    }
    found.set(nickname, path);
  }
  return found;
}

function checkTargets(targets: readonly string[], param = "target"): void {
  const invalid = targets.filter((target) => !LORA_TARGETS.some((known) => known === target));
  if (invalid.length === 0) return;
  const quote = (names: readonly string[]) => names.map((name) => `'${shorten(name)}'`).join(", ");
  throw badRequest(
    `Invalid target(s): [${quote(invalid)}]. Valid targets: [${quote(LORA_TARGETS)}]`,
    param,
  );
}

/** Spreads a value over all LoRAs; gives one for each. */
function spread<T>(name: string, value: T | T[], count: number): T[] {
  if (!Array.isArray(value)) return new Array<T>(count).fill(value);
  checkLength(name, value, count);
  return value;
}

function checkLength(name: string, list: readonly unknown[], count: number, hint = ""): void {
  if (list.length === count) return;
  throw badRequest(
    `Length mismatch: lora_nickname has ${count} items, but ${name} has ${list.length} items` +
      hint,
    name,
  );
}

/** What was set, in the reference's words, which show a list only where one was given. */
function describe({ lora_nickname, target, strength }: SetLoraBody): string {
  const names = [lora_nickname].flat().join(", ");
  const targets = [target ?? "all"].flat().join(", ");
  const strengths = [strength ?? 1].flat().map((value) => value.toFixed(2)).join(", ");
  return `Successfully set LoRA adapter(s): ${names} (target: ${targets}, strength: ${strengths})`;
}

/** A value, or a list of them; the message is for what is neither. */
function orList<T extends z.ZodType>(
  one: T,
  what: string,
): z.ZodUnion<[T, z.ZodArray<T>]> {
  return z.union([one, z.array(one)], {
    error: `Input should be a valid ${what} or a list of valid ${what}s`,
  });
}

const SET_FIELDS = {
  lora_nickname: orList(z.string(), "string"),
  lora_path: orList(z.string().nullable(), "string").nullish(),
  target: orList(z.string(), "string").nullish(),
  strength: orList(z.number(), "number").nullish(),
  merge_mode: text(),
  lora_alpha: orList(z.int().nullable(), "integer").nullish(),
  strict: flag(),
};

/** The body of `set_lora`; unknown fields are kept. */
export const setLoraSchema: z.ZodObject<typeof SET_FIELDS, z.core.$loose> = z.looseObject(
  SET_FIELDS,
);

export type SetLoraBody = z.output<typeof setLoraSchema>;

const MERGE_FIELDS = { target: text(), strength: number() };

/** The body of `merge_lora_weights`; unknown fields are kept. */
export const mergeLoraSchema: z.ZodObject<typeof MERGE_FIELDS, z.core.$loose> = z.looseObject(
  MERGE_FIELDS,
);

const UNMERGE_FIELDS = { target: text() };

/** The body of `unmerge_lora_weights`; unknown fields are kept. */
export const unmergeLoraSchema: z.ZodObject<typeof UNMERGE_FIELDS, z.core.$loose> = z.looseObject(
  UNMERGE_FIELDS,
);

/** The fields that each of the three knows. */
export const loraFieldTables: Readonly<Record<"set" | "merge" | "unmerge", FieldTable>> = {
  set: { known: Object.keys(SET_FIELDS), withoutEffect: new Map() },
  merge: { known: Object.keys(MERGE_FIELDS), withoutEffect: new Map() },
  unmerge: { known: Object.keys(UNMERGE_FIELDS), withoutEffect: new Map() },
};
