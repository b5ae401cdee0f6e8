/** The settings of the next request, made from what the model says that it takes. */

import { useId, useState } from "preact/hooks";
import { capital, Choice, iconButton, NumberSlider, Segments, Switch, words } from "./controls.ts";
import { choose, chooseControl, type ControlFile, type Draft, draft } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { Loras } from "./loras.ts";
import {
  controlNet,
  isOfControl,
  isOfReferences,
  type Model,
  ownFrames,
  type Setting,
  settingsFor,
  sizeProblem,
  takesControl,
} from "./model.ts";
import { draftTask, PAGE_SYNTAX } from "./request.ts";
import { Seed } from "./seed.ts";
import { SizePicker } from "./size_picker.ts";
import { memory, useStore } from "./store.ts";
import { view } from "./view.ts";

/** Settings that are always in view, with their usual names. */
const FIRST: Readonly<Record<string, string>> = {
  num_inference_steps: "Steps",
  guidance_scale: "Guidance (CFG)",
  guidance_scale_2: "Guidance (CFG), low noise",
  image_guidance_scale: "Image guidance",
  strength: "Denoising strength",
  sampler: "Sampler",
  scheduler: "Scheduler",
};

/** Names of other settings; the rest have their names of requests. */
const NAMES: Readonly<Record<string, string>> = {
  flow_shift: "Shift",
  max_sequence_length: "Max prompt tokens",
  enable_upscaling: "Upscale",
  upscaling_scale: "Upscaling factor",
  enable_frame_interpolation: "Frame interpolation",
  frame_interpolation_exp: "Doublings",
  cfg_zero_star: "CFG-Zero*",
  riflex: "RIFLEx",
  padding_mask_crop: "Only masked, padding",
  ip_adapter_scale: "Reference scale",
  ip_adapter_mode: "Reference mode",
  ip_adapter_start: "Reference start",
  ip_adapter_end: "Reference end",
  hires_scale: "Hires fix",
  hires_upscaler: "Hires upscaler",
  hires_strength: "Hires denoising strength",
};

/** Settings that people look for; the others are for experts. */
const PLAIN =
  /^(?:hires_(?:scale|upscaler|strength)|padding_mask_crop|enable_|upscaling_scale|frame_interpolation_exp|layers|ip_adapter_scale)/;

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

export function SettingsPanel({ model }: { model: Model }): VNode {
  const state = useStore(draft, (state) => state);
  const task = draftTask(model, state);
  const isMasked = state.output === "image" && state.mask !== null;
  const all = settingsFor(model, task, isMasked);
  const settings = all.filter(({ name, type, choices }) =>
    !HIDDEN.includes(name) && !["texts", "numbers", "integers"].includes(type) &&
    (type !== "text" || choices) && (!NEEDS[name] || state.settings[NEEDS[name]]) &&
    !isOfControl(model, name) && (state.references.length > 0 || !isOfReferences(name))
  );
  const controls = takesControl(model, state) ? state.controls : [];
  const first = settings.filter(({ name }) => FIRST[name]);
  const [isExpert, setExpert] = useState(memory.read("expert", false));
  const others = settings.filter(({ name }) => !FIRST[name]);
  const hidden = others.filter(({ name }) => !PLAIN.test(name) && !(name in state.settings));
  const hasNegative = all.some(({ name }) => name === "negative_prompt");
  const field = (setting: Setting) => h(SettingField, { key: setting.name, setting, task, state });
  return h(
    "section",
    { class: "settings", "aria-label": "Settings" },
    h(
      "div",
      { class: "drawer-top" },
      iconButton(
        { label: "Close the settings", onClick: () => view.set({ hasSettings: false }) },
        icon("close"),
      ),
    ),
    h(SizePicker, { model, state }),
    state.output === "video" ? h(Length, { model, state }) : null,
    h(Seed, { state }),
    h(Count, { state }),
    ...controls.map((control, place) =>
      h(ControlSettings, { key: control.key, model, control, place, count: controls.length })
    ),
    ...first.map(field),
    hasNegative ? h(Negative, { state }) : null,
    model.can_enhance
      ? h(Switch, {
        name: "Rewrite the prompt",
        hint: "A language model rewrites the prompt first",
        value: state.settings["enhance_prompt"] === true,
        onChange: (value) => choose("enhance_prompt", value),
      })
      : null,
    model.takes_loras ? h(Loras, { model, state }) : null,
    h(
      "details",
      { class: "more" },
      h("summary", {}, "More"),
      ...others.filter((setting) => isExpert || !hidden.includes(setting)).map(field),
      state.output === "image"
        ? h(Segments<Draft["format"]>, {
          name: "File",
          value: state.format,
          options: [["png", "PNG"], ["jpeg", "JPEG"], ["webp", "WebP"]],
          onChange: (format) => draft.set({ format }),
          hidesName: false,
        })
        : null,
      isExpert || hidden.length > 0
        ? h(Switch, {
          name: "Expert settings",
          hint: "Shows all that the model takes; they have good defaults",
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
  const { name: id, description, type, choices, minimum, maximum, defaults } = setting;
  const name = FIRST[id] ?? NAMES[id] ?? capital(words(id));
  const hint = description.replaceAll("`", "");
  const own = defaults[task ?? ""] ?? (id === "prompt_syntax" ? PAGE_SYNTAX : null);
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
  return h(
    "div",
    { class: "negative" },
    h("label", { class: "name", for: field }, "Negative prompt"),
    h("textarea", {
      id: field,
      rows: 2,
      value: value ?? "",
      placeholder: "blurry, text, …",
      onInput: (event) => choose("negative_prompt", event.currentTarget.value || undefined),
    }),
  );
}

/** Most results of a request, as the API has it. */
const MAX_COUNT = 10;

function Count({ state }: { state: Draft }): VNode {
  return h(NumberSlider, {
    id: "n",
    name: state.output === "video" ? "Videos" : "Images",
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
  const seconds = (frames / rate).toFixed(1);
  return h(
    "fieldset",
    { class: "group" },
    h("legend", { class: "unseen" }, "Length"),
    h(NumberSlider, {
      id: "num_frames",
      name: `Frames, ${seconds} s`,
      hint: `Videos have one frame more than a multiple of ${step}`,
      value: state.numFrames ?? undefined,
      own,
      least: step + 1,
      most,
      step,
      onChange: (numFrames) => draft.set({ numFrames: numFrames ?? null }),
    }),
    h(NumberSlider, {
      id: "fps",
      name: "Frames per second",
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
  if (prompt.trim() === "") return "Write what you want to see.";
  if (size === "") return undefined;
  const [width, height] = size.split("x").map(Number);
  return sizeProblem(model, width ?? 0, height ?? 0);
}

/** Numbers of it: their names, the greatest value, and what they are when nothing is chosen. */
const NUMBERS = [
  ["control_scale", "Control scale", 2, null],
  ["control_start", "Control start", 1, 0],
  ["control_end", "Control end", 1, 1],
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
  const title = count > 1 ? `Control picture ${place + 1}` : "Control picture";
  return h(
    "fieldset",
    { class: "group" },
    h("legend", { class: "unseen" }, title),
    h(Segments<"map" | "canny">, {
      name: title,
      value: settings["control_type"] === "canny" ? "canny" : "map",
      options: [["map", "Control map"], ["canny", "Canny edges"]],
      onChange: (type) => choose("control_type", type === "map" ? undefined : type),
      hidesName: false,
    }),
    net && model.control_nets.length > 1
      ? h(Choice, {
        name: "ControlNet",
        choices: model.control_nets.map(({ name }) => name),
        own: controlNet(model, undefined, place)!.name,
        value: net.name,
        onChange: (name) => choose("control_net", name),
      })
      : null,
    net?.modes
      ? h(Choice, {
        name: "Control mode",
        hint: "What the control picture shows",
        choices: net.modes,
        own: net.modes[0]!,
        value: settings["control_mode"] as string | undefined,
        onChange: (mode) => choose("control_mode", mode),
      })
      : null,
    ...NUMBERS.map(([id, name, most, own]) =>
      h(NumberSlider, {
        key: id,
        id,
        name,
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
