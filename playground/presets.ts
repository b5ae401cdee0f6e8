/** Settings under a name: those that a model has by itself, and one's own, which this browser keeps. */

import { useState } from "preact/hooks";
import { iconButton } from "./controls.ts";
import { type Draft, draft, type LoraUse } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import type { Words } from "./english.ts";
import type { Model } from "./model.ts";
import { draftTask } from "./request.ts";
import { memory } from "./store.ts";
import { settingName, t } from "./texts.ts";
import { save } from "./media.ts";
import { tell } from "./view.ts";

/** What a preset sets; the prompt, the seed and the inputs stay. */
interface Preset {
  name: string;
  /** The model that it was made for. */
  model: string;
  size: string;
  settings: Record<string, unknown>;
  loras: LoraUse[];
  format: Draft["format"];
}

const kept = () => memory.read<Preset[]>("presets", []);

/** Models that take fewer steps were made for just these. */
const MANY_STEPS = 16;

/** The presets that a model has by itself: its defaults, and what is faster or better where something is. */
function presetsOf({ settings }: Model, task: string | undefined): [string, Preset["settings"]][] {
  const named = (wanted: string) => settings.find(({ name }) => name === wanted);
  const offered = (name: string, value: string) =>
    named(name)?.choices?.includes(value) ? { [name]: value } : {};
  const { defaults = {}, maximum = Infinity } = named("num_inference_steps") ?? {};
  const steps = Number(defaults[task ?? ""]);
  const takes = (share: number) =>
    steps >= MANY_STEPS
      ? { num_inference_steps: Math.min(maximum, Math.round(share * steps)) }
      : {};
  const fast = { ...takes(0.5), ...offered("decoder", "tiny") };
  const best = takes(1.5);
  const some = (key: keyof Words, values: object, others: object) =>
    Object.keys(values).length > 0 ? [[t(key), { ...values, ...others }] as const] : [];
  return [
    [t("presetDefaults"), {}],
    ...some("presetFast", fast, offered("quality", "high")),
    ...some("presetBest", best, { ...offered("quality", "exact"), ...offered("decoder", "full") }),
  ] as [string, Preset["settings"]][];
}

function apply({ size, settings, loras, format }: Partial<Preset>): void {
  draft.set({
    settings: { ...settings },
    size: size ?? "",
    loras: loras ?? [],
    ...(format ? { format } : {}),
  });
}

/** Reads presets of a file; anything else is an error with a sentence for people. */
async function readPresets(file: File): Promise<Preset[]> {
  const isPreset = (value: unknown): value is Preset => {
    const { name, settings, loras } = (value ?? {}) as Partial<Preset>;
    return typeof name === "string" && name.trim() !== "" && settings !== null &&
      typeof settings === "object" && Array.isArray(loras);
  };
  try {
    const { presets } = JSON.parse(await file.text());
    if (Array.isArray(presets) && presets.every(isPreset)) return presets;
  } catch {
    // Said below.
  }
  throw new Error(t("cannotUse", { name: file.name, why: t("noPresets") }));
}

/** Those of a list under new names come first, in place of others of their names. */
function merged(presets: readonly Preset[], others: readonly Preset[]): Preset[] {
  const names = new Set(presets.map(({ name }) => name));
  return [...presets, ...others.filter(({ name }) => !names.has(name))];
}

export function Presets({ model, state }: { model: Model; state: Draft }): VNode {
  const [own, setOwn] = useState(kept());
  const [name, setName] = useState("");
  const [news, setNews] = useState("");
  const change = (presets: Preset[], news = "") => {
    memory.write("presets", presets);
    setOwn(presets);
    setNews(news);
  };
  const keep = () => {
    const trimmed = name.trim();
    if (trimmed === "") return;
    const { size, settings, loras, format } = state;
    // The sides by which an image grows are of that image.
    const { outpaint: _, ...others } = settings;
    const preset = { name: trimmed, model: model.id, size, settings: others, loras, format };
    change(merged([preset], own), t("presetSaved", { name: trimmed }));
    setName("");
  };
  const take = async (files: FileList | null) => {
    const [file] = files ?? [];
    if (!file) return;
    try {
      const presets = await readPresets(file);
      change(merged(presets, own), t("presetsCame", { count: presets.length }));
    } catch (error) {
      setNews("");
      tell(error instanceof Error ? error.message : String(error));
    }
  };
  return h(
    "div",
    { class: "presets" },
    h(
      "div",
      { class: "chips" },
      ...presetsOf(model, draftTask(model, state)).map(([name, settings]) =>
        h("button", {
          key: name,
          class: "chip",
          title: Object.entries(settings).map(([id, value]) => `${settingName(id)} ${value}`)
            .join(", "),
          onClick: () => apply({ settings }),
        }, name)
      ),
    ),
    h(
      "ul",
      { "aria-label": t("ownPresets") },
      ...own.map((preset) =>
        h(
          "li",
          { key: preset.name },
          h("button", { class: "chip", onClick: () => apply(preset) }, preset.name),
          preset.model === model.id ? null : h("span", { class: "hint" }, preset.model),
          iconButton({
            label: t("removePreset", { name: preset.name }),
            onClick: () => change(own.filter((other) => other !== preset)),
          }, icon("close")),
        )
      ),
    ),
    h(
      "form",
      {
        class: "row",
        onSubmit: (event) => {
          event.preventDefault();
          keep();
        },
      },
      h("input", {
        "aria-label": t("presetName"),
        placeholder: t("presetName"),
        value: name,
        autocomplete: "off",
        onInput: ({ currentTarget }) => setName(currentTarget.value),
      }),
      h("button", { type: "submit", class: "quiet", disabled: name.trim() === "" }, t("save")),
    ),
    h(
      "div",
      { class: "row" },
      h("button", {
        class: "quiet",
        disabled: own.length === 0,
        onClick: () => {
          const text = JSON.stringify({ presets: own }, null, 2);
          save(new Blob([text], { type: "application/json" }), "denoise-presets.json");
        },
      }, t("exportPresets")),
      h(
        "label",
        { class: "quiet file" },
        t("importPresets"),
        h("input", {
          type: "file",
          class: "unseen",
          accept: ".json,application/json",
          onChange: ({ currentTarget }) => {
            void take(currentTarget.files);
            currentTarget.value = "";
          },
        }),
      ),
    ),
    h("p", { class: "hint", role: "status" }, news),
  );
}
