/** LoRAs of the next request, each with its strength. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { catchFocus, iconButton, NumberSlider, useHint } from "./controls.ts";
import { type Draft, draft, type LoraUse } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { dropped } from "./lora_files.ts";
import type { Model } from "./model.ts";
import { useStore } from "./store.ts";
import { settingHint, t } from "./texts.ts";

export function Loras({ model, state }: { model: Model; state: Draft }): VNode {
  const lines = useStore(dropped, ({ lines }) => lines);
  const [mark, sentence] = useHint(t("loras"), settingHint("loras"));
  const replace = (index: number, ...others: LoraUse[]) =>
    draft.set({ loras: state.loras.toSpliced(index, 1, ...others) });
  const { length } = state.loras;
  const count = useRef(length);
  useEffect(() => {
    // The button that added or removed one is gone.
    if (length !== count.current) catchFocus(".lora-path");
    count.current = length;
  }, [length]);
  return h(
    "fieldset",
    { class: "loras" },
    h("legend", { class: "name" }, t("loras"), mark),
    sentence,
    h(
      "ul",
      {},
      ...state.loras.map((lora, index) =>
        h(
          "li",
          { key: lora.path },
          h(NumberSlider, {
            id: "lora",
            name: lora.path,
            value: lora.strength,
            own: 1,
            least: 0,
            most: 2,
            step: 0.05,
            onChange: (strength) => replace(index, { ...lora, strength: strength ?? 1 }),
          }),
          iconButton(
            { label: t("remove", { name: lora.path }), onClick: () => replace(index) },
            icon("close"),
          ),
        )
      ),
    ),
    h(
      "div",
      { class: "hint", role: "status" },
      ...lines.map((line) => h("p", { key: line }, line)),
    ),
    h(AddLora, { names: model.loras.filter((name) => state.loras.every((l) => l.path !== name)) }),
  );
}

function AddLora({ names }: { names: string[] }): VNode {
  const id = useId();
  const [path, setPath] = useState("");
  const add = (path: string) => {
    if (path.trim() === "") return;
    draft.set(({ loras }) => ({ loras: [...loras, { path: path.trim(), strength: 1 }] }));
    setPath("");
  };
  return h(
    "div",
    { class: "add-lora" },
    ...names.map((name) =>
      h("button", { key: name, class: "chip", onClick: () => add(name) }, t("add", { name }))
    ),
    h(
      "form",
      {
        onSubmit: (event) => {
          event.preventDefault();
          add(path);
        },
      },
      h("label", { class: "unseen", for: id }, t("loraFile")),
      h("input", {
        id,
        class: "lora-path",
        value: path,
        list: `${id}-names`,
        placeholder: "file.safetensors",
        autocomplete: "off",
        spellcheck: false,
        onInput: (event) => setPath(event.currentTarget.value),
        onChange: (event) => add(event.currentTarget.value),
      }),
      h(
        "datalist",
        { id: `${id}-names` },
        ...names.map((name) => h("option", { key: name, value: name })),
      ),
    ),
  );
}
