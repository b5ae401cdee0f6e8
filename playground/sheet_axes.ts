/** The two settings of a sheet, and their values. */

import type { Draft } from "./draft.ts";
import type { Words } from "./english.ts";
import { draftTask } from "./request.ts";
import { isOfControl, type Model, outputsOf, type Setting, settingsFor } from "./model.ts";
import { session } from "./session.ts";
import { settingName, t } from "./texts.ts";

/** A setting with the values that are tried, as they are typed. */
export interface Axis {
  id: string;
  text: string;
}

export interface AxisChoice {
  id: string;
  name: string;
  /** What its values may be; empty where they are numbers or words. */
  choices: readonly string[];
  /** Values that somebody may try, as they are typed. */
  example: string;
  setting?: Setting;
}

/** What a sheet can try: settings of the next request, its seed, words of its prompt, and other models. */
export function axisChoices(model: Model, state: Draft): AxisChoice[] {
  const task = draftTask(model, state);
  const settings = settingsFor(model, task).filter(({ name, type, choices }) =>
    !isOfControl(model, name) && !name.startsWith("hires_") &&
    (type === "integer" || type === "number" || type === "text" && choices !== undefined)
  );
  const models = session.state.models.filter((each) => outputsOf(each).includes("image"));
  return [
    ...settings.map((setting) => ({
      id: setting.name,
      name: axisName(setting.name),
      choices: setting.choices ?? [],
      example: setting.choices?.slice(0, 3).join(", ") ?? numbersAround(setting, task),
      setting,
    })),
    { id: "seed", name: axisName("seed"), choices: [], example: "1, 2, 3" },
    { id: "prompt", name: axisName("prompt"), choices: [], example: t("sheetWordsExample") },
    ...models.length > 1
      ? [{
        id: "model",
        name: axisName("model"),
        choices: models.map(({ id }) => id),
        example: models.slice(0, 2).map(({ id }) => id).join(", "),
      }]
      : [],
  ];
}

/** Half of a setting's default, the default, and one and a half of it, as far as they may be. */
function numbersAround(
  { minimum = 0, maximum = Infinity, type, defaults }: Setting,
  task: string | undefined,
): string {
  const parts = type === "integer" ? 1 : 100;
  const usual = Number.isFinite(maximum) ? maximum / 2 : parts > 1 ? 1 : 8;
  const own = Number(defaults[task ?? ""] ?? usual);
  const values = [own / 2, own, own * 1.5].map((value) =>
    Math.round(parts * Math.max(minimum, Math.min(maximum, value))) / parts
  );
  return [...new Set(values)].join(", ");
}

/** What an axis is called. */
export function axisName(id: string): string {
  const key = { seed: "seed", prompt: "sheetWords", model: "model" }[id] as keyof Words | undefined;
  return key ? t(key) : settingName(id);
}

/** The values of an axis; a text where one of them cannot be used. */
export function valuesOf({ text }: Axis, choice: AxisChoice, state: Draft): string[] | string {
  const values = [...new Set(text.split(",").map((value) => value.trim()).filter(Boolean))];
  const { id, name, choices, example, setting } = choice;
  if (values.length === 0) return t("sheetNoValues", { name, example });
  if (id === "prompt") {
    return state.prompt.includes(values[0]!) ? values : t("sheetNoWords", { words: values[0]! });
  }
  const { minimum = -Infinity, maximum = Infinity, type = "integer" } = setting ?? { minimum: 0 };
  const isGood = (value: string) => {
    if (choices.length > 0) return choices.includes(value);
    const number = Number(value);
    return number >= minimum && number <= maximum && Number.isFinite(number) &&
      (type !== "integer" || Number.isSafeInteger(number));
  };
  const wrong = values.find((value) => !isGood(value));
  return wrong === undefined ? values : t("sheetBadValue", { name, value: wrong });
}

/** A draft with a value of an axis. */
export function withValue(
  state: Draft,
  { id }: Axis,
  values: readonly string[],
  value: string,
): Draft {
  // A sheet of one row has no value for it.
  if (value === "") return state;
  if (id === "seed") return { ...state, seed: Number(value) };
  if (id === "prompt") {
    return {
      ...state,
      prompt: state.prompt.replaceAll(values[0]!, () => value),
    };
  }
  if (id === "model") return state;
  const known = Number.isFinite(Number(value)) ? Number(value) : value;
  return { ...state, settings: { ...state.settings, [id]: known } };
}
