/** Settings of the images that IP-Adapters see, one by one, and what a request says of them. */

import { Choice, iconButton, NumberSlider } from "./controls.ts";
import { chooseReference, type Draft, givenFile } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { FileButton } from "./inputs.ts";
import type { Model } from "./model.ts";
import { settingName, t } from "./texts.ts";

/** Numbers of it: the greatest value, and what they are when nothing is chosen. */
const NUMBERS = [
  ["ip_adapter_scale", 2, 1],
  ["ip_adapter_start", 1, 0],
  ["ip_adapter_end", 1, 1],
] as const;

export function ReferenceSettings(
  { model, reference, place, count }: {
    model: Model;
    reference: Draft["references"][number];
    place: number;
    count: number;
  },
): VNode {
  const { key, settings, mask } = reference;
  const title = count > 1 ? t("referenceAt", { place: place + 1 }) : t("reference");
  const of = (name: string) => model.settings.find((setting) => setting.name === name);
  const modes = of("ip_adapter_mode")?.choices;
  const adapters = model.ip_adapters;
  return h(
    "fieldset",
    { class: "group" },
    h("legend", {}, title),
    adapters.length > 1
      ? h(Choice, {
        name: settingName("ip_adapter_name"),
        choices: adapters,
        own: adapters[Math.min(place, adapters.length - 1)]!,
        value: settings["ip_adapter_name"] as string | undefined,
        onChange: (name) => chooseReference(key, "ip_adapter_name", name),
      })
      : null,
    modes
      ? h(Choice, {
        name: settingName("ip_adapter_mode"),
        choices: modes,
        own: "all",
        value: settings["ip_adapter_mode"] as string | undefined,
        onChange: (mode) => chooseReference(key, "ip_adapter_mode", mode),
      })
      : null,
    ...NUMBERS.filter(([name]) => of(name)).map(([id, most, own]) =>
      h(NumberSlider, {
        key: id,
        id: `${id}_${place}`,
        name: settingName(id),
        own,
        most,
        least: 0,
        step: 0.05,
        value: settings[id] as number | undefined,
        onChange: (number: number | undefined) => chooseReference(key, id, number),
      })
    ),
    h(
      "div",
      { class: "row" },
      h("span", { class: "name", title: t("referenceMaskHint") }, t("referenceMask")),
      mask
        ? h("img", { class: "mask-thumb", src: mask.url, alt: t("referenceMask") })
        : h(FileButton, {
          label: t("addReferenceMask"),
          name: "brush",
          multiple: false,
          accept: "image/*",
          onPick: (files) => {
            const [file] = files ?? [];
            if (file) chooseReference(key, "mask", givenFile(file, file.name));
          },
        }),
      mask
        ? iconButton({
          label: t("removeReferenceMask"),
          onClick: () => chooseReference(key, "mask", undefined),
        }, icon("close"))
        : null,
    ),
  );
}
