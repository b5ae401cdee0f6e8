/** The size of the result: the shapes that the model advertises, or any other that it can make. */

import { useId, useState } from "preact/hooks";
import { type Draft, draft } from "./draft.ts";
import { h, type VNode } from "./elements.ts";
import { type Model, sizeProblem } from "./model.ts";

export function SizePicker({ model, state }: { model: Model; state: Draft }): VNode {
  const hasInput = state.images.length > 0 || state.clip !== null;
  const shown = state.size || (hasInput ? "" : model.defaults.size);
  const isOther = shown !== "" && !model.sizes.includes(shown);
  const [isOpen, setOpen] = useState(isOther);
  return h(
    "fieldset",
    { class: "sizes" },
    h("legend", { class: "name" }, "Size"),
    h(
      "div",
      { class: "size-tiles" },
      hasInput ? tile("", "Input size", shown === "", undefined) : null,
      ...model.sizes.map((size) => tile(size, size.replace("x", " × "), size === shown, size)),
      h(
        "button",
        {
          class: "size-tile",
          "aria-expanded": isOpen || isOther,
          onClick: () => setOpen(!isOpen),
        },
        h("span", { class: "shape dots" }),
        h("span", { class: "caption" }, "Other"),
      ),
    ),
    isOpen || isOther ? h(OwnSize, { model, size: shown || model.defaults.size }) : null,
  );
}

function tile(size: string, text: string, isChosen: boolean, shape: string | undefined): VNode {
  const [width = 1, height = 1] = shape?.split("x").map(Number) ?? [];
  const long = Math.max(width, height);
  return h(
    "button",
    {
      key: size,
      class: "size-tile",
      "aria-pressed": isChosen,
      onClick: () => draft.set({ size }),
    },
    h("span", {
      class: shape ? "shape" : "shape given",
      style: { width: `${22 * width / long}px`, height: `${22 * height / long}px` },
    }),
    h("span", { class: "caption" }, text),
  );
}

function OwnSize({ model, size }: { model: Model; size: string }): VNode {
  const id = useId();
  const sides = size.split("x").map(Number);
  const problem = sizeProblem(model, sides[0] ?? 0, sides[1] ?? 0);
  const side = (index: 0 | 1, name: string) => [
    h("label", { class: "unseen", for: `${id}${index}` }, name),
    h("input", {
      id: `${id}${index}`,
      class: "number",
      type: "number",
      min: model.limits.size_multiple,
      step: model.limits.size_multiple,
      value: sides[index],
      "aria-invalid": problem !== undefined,
      onChange: (event) => {
        const next = [...sides];
        next[index] = Number(event.currentTarget.value);
        draft.set({ size: next.join("x") });
      },
    }),
  ];
  return h(
    "div",
    { class: "own-size" },
    ...side(0, "Width"),
    h("span", { "aria-hidden": "true" }, "×"),
    ...side(1, "Height"),
    problem ? h("span", { class: "problem", role: "alert" }, problem) : null,
  );
}
