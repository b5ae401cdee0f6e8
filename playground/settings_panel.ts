/** The settings of the next request, made from what the model says that it takes. */

import { useId, useState } from "preact/hooks";
import { Choice, iconButton, NumberSlider, Segments, Switch, useHint } from "./controls.ts";
import {
  choose,
  chooseControl,
  type ControlFile,
  type Draft,
  draft,
  givenReferences,
  isMasked,
} from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { KeyFrames } from "./key_frames.ts";
import { lazy } from "./lazy.ts";
import { Loras } from "./loras.ts";
import {
  controlNet,
  isOfControl,
  isOfReferences,
  type Model,
  needsReference,
  ownFrames,
  type Setting,
  settingsFor,
  sizeProblem,
  takesControl,
  withLoras,
} from "./model.ts";
import { controlsOf, draftTask, PAGE_SYNTAX } from "./request.ts";
import { ReferenceSettings } from "./reference_settings.ts";
import { Seed } from "./seed.ts";
import { SizePicker } from "./size_picker.ts";
import { memory, useStore } from "./store.ts";
import { exactSeconds, settingHint, settingName, t } from "./texts.ts";
import { view } from "./view.ts";

/** Settings that are always in view. */
const FIRST =
  /^(?:num_inference_steps|(?:image_)?guidance_scale(?:_2)?|strength|sampler|scheduler)$/;

/** Settings that people look for; the others are for experts. */
const PLAIN =
  /^(?:hires_(?:scale|upscaler|strength)|padding_mask_crop|enable_|upscaling_scale|frame_interpolation_exp|layers)/;

const NEEDS: Readonly<Record<string, string>> = {
  upscaling_scale: "enable_upscaling",
  frame_interpolation_exp: "enable_frame_interpolation",
  frame_interpolation_scale: "enable_frame_interpolation",
  ...Object.fromEntries(
    ["upscaler", "strength", "steps", "sampler", "scheduler"]
      .map((name) => [`hires_${name}`, "hires_scale"]),
  ),
};

/** The page has the scale in their place. */
const HIDDEN: readonly string[] = ["negative_prompt", "hires_width", "hires_height"];

const SteeringPanel = lazy(async () => (await import("./steering_panel.ts")).SteeringPanel);
const Presets = lazy(async () => (await import("./presets.ts")).Presets);

export function SettingsPanel({ model: opened }: { model: Model }): VNode {
  const state = useStore(draft, (state) => state);
  const model = withLoras(opened, state.loras);
  const task = draftTask(model, state);
  const all = settingsFor(model, task, isMasked(state));
  const references = givenReferences(model, state);
  const settings = all.filter(({ name, type, choices }) =>
    !HIDDEN.includes(name) && !["texts", "numbers", "integers"].includes(type) &&
    (type !== "text" || choices) && (!NEEDS[name] || state.settings[NEEDS[name]]) &&
    !isOfControl(model, name) && !isOfReferences(name) &&
    (references.length > 0 || !needsReference(name))
  );
  const controls = controlsOf(model, state);
  const first = settings.filter(({ name }) => FIRST.test(name));
  const [hasPresets, setPresets] = useState(false);
  const [hasSteering, setSteering] = useState(false);
  const [isExpert, setExpert] = useState(memory.read("expert", false));
  const others = settings.filter(({ name }) => !FIRST.test(name));
  const hidden = others.filter(({ name }) => !PLAIN.test(name) && !(name in state.settings));
  const hasNegative = all.some(({ name }) => name === "negative_prompt");
  const field = (setting: Setting) => h(SettingField, { key: setting.name, setting, task, state });
  return h(
    "section",
    { class: "settings", "aria-label": t("settings") },
    h(
      "div",
      { class: "drawer-top" },
      iconButton(
        { label: t("closeSettings"), onClick: () => view.set({ hasSettings: false }) },
        icon("close"),
      ),
    ),
    h(
      "details",
      {
        class: "more",
        onToggle: ({ currentTarget: { open } }) => setPresets(open),
      },
      h("summary", {}, t("presets")),
      hasPresets ? h(Presets, { model, state }) : null,
    ),
    h(SizePicker, { model, state }),
    state.output === "video" ? h(Length, { model, state }) : null,
    h(Seed, { state }),
    h(Count, { state }),
    model.controls_inpainting && isMasked(state) && takesControl(model, state)
      ? h(PaintedControl, { model, state })
      : null,
    ...controls.map((control, place) =>
      h(ControlSettings, { key: control.key, model, control, place, count: controls.length })
    ),
    ...model.ip_adapters.length > 0
      ? references.map((reference, place) =>
        h(ReferenceSettings, {
          key: reference.key,
          model,
          reference,
          place,
          count: references.length,
        })
      )
      : [],
    h(KeyFrames, { model, state }),
    ...first.map(field),
    hasNegative ? h(Negative, { state }) : null,
    model.can_enhance
      ? h(Switch, {
        name: t("rewrite"),
        hint: t("rewriteHint"),
        value: state.settings["enhance_prompt"] === true,
        onChange: (value) => choose("enhance_prompt", value),
      })
      : null,
    model.gives_audio && state.output === "video"
      ? h(Switch, {
        name: t("sound"),
        hint: t("soundHint"),
        value: state.settings["enable_audio"] !== false,
        onChange: (value) => choose("enable_audio", value === true ? undefined : false),
      })
      : null,
    model.takes_loras ? h(Loras, { model, state }) : null,
    model.parts.control_nets.length + model.parts.ip_adapters.length > 0
      ? h(
        "details",
        { class: "more", onToggle: ({ currentTarget: { open } }) => setSteering(open) },
        h("summary", {}, t("steeringParts")),
        hasSteering ? h(SteeringPanel, { model }) : null,
      )
      : null,
    h(
      "details",
      { class: "more" },
      h("summary", {}, t("more")),
      ...others.filter((setting) => isExpert || !hidden.includes(setting)).map(field),
      state.output === "image"
        ? h(Segments<Draft["format"]>, {
          name: t("file"),
          value: state.format,
          options: [["png", "PNG"], ["jpeg", "JPEG"], ["webp", "WebP"]],
          onChange: (format) => draft.set({ format }),
          hidesName: false,
        })
        : null,
      isExpert || hidden.length > 0
        ? h(Switch, {
          name: t("expert"),
          hint: t("expertHint"),
          value: isExpert,
          onChange: (value) => {
            setExpert(value === true);
            memory.write("expert", value === true);
          },
        })
        : null,
    ),
  );
}

function SettingField(
  { setting, task, state }: { setting: Setting; task: string | undefined; state: Draft },
): VNode {
  const { name: id, type, choices, minimum, maximum, defaults } = setting;
  const name = settingName(id);
  const hint = settingHint(id);
  const own = id === "prompt_syntax" ? PAGE_SYNTAX : defaults[task ?? ""] ?? null;
  const value = state.settings[id];
  const onChange = (value: unknown) => choose(id, value);
  if (type === "flag") return h(Switch, { name, hint, value: value === true, onChange });
  if (choices) {
    return h(Choice, {
      name,
      hint,
      choices,
      onChange,
      own: own as string | null,
      value: value as string | undefined,
    });
  }
  return h(NumberSlider, {
    id,
    name,
    hint,
    onChange,
    value: value as number | undefined,
    own: own as number | null,
    least: minimum ?? 0,
    most: maximum,
    step: type === "integer" ? 1 : 0.05,
  });
}

function Negative({ state }: { state: Draft }): VNode {
  const field = useId();
  const value = state.settings["negative_prompt"] as string | undefined;
  const [mark, sentence] = useHint(t("set_negative_prompt"), t("hint_negative_prompt"));
  return h(
    "div",
    { class: "negative" },
    h(
      "div",
      { class: "row" },
      h("label", { class: "name", for: field }, t("set_negative_prompt")),
      mark,
    ),
    sentence,
    h("textarea", {
      id: field,
      rows: 2,
      value: value ?? "",
      placeholder: t("negativeExample"),
      onInput: (event) => choose("negative_prompt", event.currentTarget.value || undefined),
    }),
  );
}

/** Most results of a request, as the API has it. */
const MAX_COUNT = 10;

function Count({ state }: { state: Draft }): VNode {
  return h(NumberSlider, {
    id: "n",
    name: t(state.output === "video" ? "videos" : "images"),
    hint: settingHint("n"),
    value: state.count,
    own: 1,
    least: 1,
    most: MAX_COUNT,
    step: 1,
    onChange: (count) => draft.set({ count: count ?? 1 }),
  });
}

function Length({ model, state }: { model: Model; state: Draft }): VNode {
  const { frame_multiple: step, max_frames: most } = model.limits;
  const { fps: ownRate } = model.defaults;
  const own = ownFrames(model);
  const rate = state.fps ?? ownRate;
  const frames = state.numFrames ?? own;
  return h(
    "fieldset",
    { class: "group" },
    h("legend", { class: "unseen" }, t("length")),
    h(NumberSlider, {
      id: "num_frames",
      name: t("framesTime", { time: exactSeconds(frames / rate) }),
      hint: t("framesHint", { step }),
      value: state.numFrames ?? undefined,
      own,
      least: step + 1,
      most,
      step,
      onChange: (numFrames) => draft.set({ numFrames: numFrames ?? null }),
    }),
    h(NumberSlider, {
      id: "fps",
      name: t("fps"),
      value: state.fps ?? undefined,
      own: ownRate,
      least: 1,
      most: 60,
      step: 1,
      onChange: (fps) => draft.set({ fps: fps ?? null }),
    }),
  );
}

export function draftProblem(model: Model, { size, prompt }: Draft): string | undefined {
  if (prompt.trim() === "") return t("writePrompt");
  if (size === "") return undefined;
  const [width, height] = size.split("x").map(Number);
  return sizeProblem(model, width ?? 0, height ?? 0);
}

/** Whether a ControlNet sees the image without what its mask redraws. */
function PaintedControl({ model, state }: { model: Model; state: Draft }): VNode {
  const others = state.controls.filter(({ isPainted }) => !isPainted);
  return h(Switch, {
    name: t("paintedControl"),
    hint: t("paintedControlHint"),
    value: others.length < state.controls.length,
    onChange: (value) => {
      const painted = {
        ...{ key: "painted", blob: new Blob(), url: "", name: "", isPainted: true },
        settings: { control_type: "inpaint" },
      };
      draft.set({
        controls: value ? [...others.slice(0, model.max_controls - 1), painted] : others,
      });
    },
  });
}

/** Numbers of it: the greatest value, and what they are when nothing is chosen. */
const BALANCES = ["balanced", "prompt", "control"] as const;
const NUMBERS = [
  ["control_scale", 2, null],
  ["control_start", 1, 0],
  ["control_end", 1, 1],
] as const;

function ControlSettings(
  { model, control, place, count }: {
    model: Model;
    control: ControlFile;
    place: number;
    count: number;
  },
): VNode {
  const { key, settings } = control;
  const choose = (name: string, value: unknown) => chooseControl(key, name, value);
  const net = controlNet(model, settings["control_net"], place);
  const title = control.isPainted
    ? t("paintedControl")
    : count > 1
    ? t("controlPictureAt", { place: place + 1 })
    : t("controlPicture");
  const balances = model.settings.find(({ name }) => name === "control_balance")?.choices;
  return h(
    "fieldset",
    { class: "group" },
    h("legend", { class: "unseen" }, title),
    control.isPainted ? null : h(Segments<"map" | "canny">, {
      name: title,
      value: settings["control_type"] === "canny" ? "canny" : "map",
      options: [["map", t("controlMap")], ["canny", t("cannyEdges")]],
      onChange: (type) => choose("control_type", type === "map" ? undefined : type),
      hidesName: false,
    }),
    net && model.control_nets.length > 1
      ? h(Choice, {
        name: t("controlNet"),
        choices: model.control_nets.map(({ name }) => name),
        own: controlNet(model, undefined, place)!.name,
        value: net.name,
        onChange: (name) => choose("control_net", name),
      })
      : null,
    net?.modes
      ? h(Choice, {
        name: settingName("control_mode"),
        hint: settingHint("control_mode"),
        choices: net.modes,
        own: net.modes[0]!,
        value: settings["control_mode"] as string | undefined,
        onChange: (mode) => choose("control_mode", mode),
      })
      : null,
    balances
      ? h(Choice, {
        name: settingName("control_balance"),
        hint: settingHint("control_balance"),
        choices: balances,
        texts: Object.fromEntries(
          BALANCES.map((balance) => [balance, t(`balance_${balance}`)]),
        ),
        own: "balanced",
        value: settings["control_balance"] as string | undefined,
        onChange: (balance) => choose("control_balance", balance),
      })
      : null,
    ...NUMBERS.map(([id, most, own]) =>
      h(NumberSlider, {
        key: id,
        id,
        name: settingName(id),
        hint: settingHint(id),
        own,
        most,
        least: 0,
        step: 0.05,
        value: settings[id] as number | undefined,
        onChange: (number: number | undefined) => choose(id, number),
      })
    ),
  );
}
