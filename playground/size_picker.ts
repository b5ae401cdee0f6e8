/** The size of the result: the shapes that the model advertises, or any other that it can make. */

import { useId, useState } from "preact/hooks";
import { iconButton, useHint } from "./controls.ts";
import { type Draft, draft } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { type Model, nearestSize, sizeProblem } from "./model.ts";
import { settingHint, t } from "./texts.ts";

export function SizePicker({ model, state }: { model: Model; state: Draft }): VNode {
  const group = useId();
  const hasInput = state.images.length > 0 || state.clip !== null;
  const [mark, sentence] = useHint(t("size"), settingHint("size"));
  const shown = state.size || (hasInput ? "" : model.defaults.size);
  return h(
    "fieldset",
    { class: "sizes" },
    h("legend", { class: "name" }, t("size"), mark),
    sentence,
    h(
      "div",
      { class: "size-tiles" },
      hasInput ? tile(group, "", t("inputSize"), shown === "", undefined) : null,
      ...model.sizes.map((size) => tile(group, size, ratioOf(size), size === shown, size)),
    ),
    h(Sides, { model, size: shown }),
  );
}

/** Ratios of sides that have names. */
const RATIOS = [[1, 1], [6, 5], [5, 4], [4, 3], [3, 2], [5, 3], [16, 9], [2, 1], [21, 9]] as const;

/** `16:9`, for a size that is near it, as sides are multiples of some number. */
export function ratioOf(size: string): string {
  const [width = 1, height = 1] = sidesOf(size);
  const ratio = Math.max(width, height) / Math.min(width, height);
  const distance = ([a, b]: (typeof RATIOS)[number]) => Math.abs(Math.log(a / b / ratio));
  const [nearest] = RATIOS.toSorted((one, other) => distance(one) - distance(other));
  if (distance(nearest!) > 0.04) return `${Math.round(100 * width / height) / 100}:1`;
  const [long, short] = nearest!;
  return width < height ? `${short}:${long}` : `${long}:${short}`;
}

function sidesOf(size: string): number[] {
  return size.split("x").map(Number);
}

function tile(
  group: string,
  size: string,
  text: string,
  isChosen: boolean,
  shape: string | undefined,
): VNode {
  const [width = 1, height = 1] = shape ? sidesOf(shape) : [];
  const long = Math.max(width, height);
  return h(
    "label",
    { key: size, class: "size-tile" },
    h("input", {
      type: "radio",
      name: group,
      class: "unseen",
      checked: isChosen,
      onChange: () => draft.set({ size }),
    }),
    h("span", {
      class: shape ? "shape" : "shape given",
      style: { width: `${22 * width / long}px`, height: `${22 * height / long}px` },
    }),
    h(
      "span",
      { class: "caption" },
      text,
      shape ? h("span", { class: "pixels" }, ` ${size.replace("x", " × ")}`) : null,
    ),
  );
}

/** Both sides as numbers; one that the model cannot make becomes the nearest when its field is left. */
function Sides({ model, size }: { model: Model; size: string }): VNode {
  const id = useId();
  const [note, setNote] = useState("");
  const sides = size ? sidesOf(size) : [];
  const problem = size ? sizeProblem(model, sides[0]!, sides[1]!) : undefined;
  const side = (index: 0 | 1, name: string) => [
    h("label", { class: "unseen", for: `${id}-side${index}` }, name),
    h("input", {
      id: `${id}-side${index}`,
      class: "number",
      type: "number",
      min: model.limits.size_multiple,
      step: "any",
      value: sides[index] ?? "",
      placeholder: t("auto"),
      "aria-invalid": problem !== undefined,
      onChange: (event) => {
        const field = event.currentTarget;
        const typed = Number(field.value);
        const wanted = sides.length > 0 ? [...sides] : sidesOf(model.defaults.size);
        if (typed > 0) wanted[index] = typed;
        const nearest = nearestSize(model, wanted, index);
        const got = sidesOf(nearest)[index]!;
        field.value = String(got);
        const why = sizeProblem(model, wanted[0]!, wanted[1]!);
        setNote(why ? t("nearestIs", { problem: why, size: nearest.replace("x", " × ") }) : "");
        draft.set({ size: nearest });
      },
    }),
  ];
  return h(
    "div",
    { class: "own-size" },
    ...side(0, t("width")),
    iconButton({
      label: t("swapSides"),
      disabled: sides.length === 0,
      onClick: () => draft.set({ size: sides.toReversed().join("x") }),
    }, icon("swap")),
    ...side(1, t("height")),
    problem
      ? h("span", { class: "problem", role: "alert" }, [
        `${problem} `,
        h("button", {
          class: "own",
          onClick: () => draft.set({ size: nearestSize(model, sides, 1) }),
        }, t("useNearest")),
      ])
      : h("span", { class: "hint", role: "status" }, note),
  );
}
