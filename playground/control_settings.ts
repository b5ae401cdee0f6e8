/** How a control picture steers the image. */

import { h } from "preact";
import { Choice, NumberSlider, Segments } from "./controls.ts";
import { choose, type Draft } from "./draft.ts";
import { fieldset, legend, type VNode } from "./elements.ts";
import { type Model, takesControl } from "./model.ts";

/** Numbers of it: their names, the greatest value, and what they are when nothing is chosen. */
const NUMBERS = [
  ["control_scale", "Control scale", 2, null],
  ["control_start", "Control start", 1, 0],
  ["control_end", "Control end", 1, 1],
] as const;

/** The settings; nothing without a picture. */
export function ControlSettings({ model, state }: { model: Model; state: Draft }): VNode | null {
  if (!takesControl(model, state) || !state.control) return null;
  const value = (name: string) => state.settings[name];
  return fieldset(
    { class: "group" },
    legend({ class: "unseen" }, "Control picture"),
    h(Segments<"map" | "canny">, {
      name: "Control picture",
      value: value("control_type") === "canny" ? "canny" : "map",
      options: [["map", "Control map"], ["canny", "Canny edges"]],
      onChange: (type) => choose("control_type", type === "map" ? undefined : type),
      hidesName: false,
    }),
    model.control_modes
      ? h(Choice, {
        name: "Control mode",
        title: "What the control picture shows",
        choices: model.control_modes,
        own: model.control_modes[0]!,
        value: value("control_mode") as string | undefined,
        onChange: (mode) => choose("control_mode", mode),
      })
      : null,
    ...NUMBERS.map(([id, name, most, own]) =>
      h(NumberSlider, {
        ...{ key: id, id, name, own, most, least: 0, step: 0.05 },
        value: value(id) as number | undefined,
        onChange: (number: number | undefined) => choose(id, number),
      })
    ),
  );
}
