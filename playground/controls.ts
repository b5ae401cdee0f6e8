/** Controls that settings are chosen with. */

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { h, type VNode } from "./elements.ts";
import { t } from "./texts.ts";

/** A button with an icon, whose meaning is a text for who cannot see it or points at it. */
export function iconButton(
  { label: text, onClick, disabled, pressed, class: name = "" }: {
    label: string;
    onClick: () => void;
    disabled?: boolean;
    pressed?: boolean;
    class?: string;
  },
  ...children: ComponentChildren[]
): VNode {
  return h("button", {
    class: `icon-button ${name}`,
    title: text,
    "aria-label": text,
    disabled,
    ...(pressed === undefined ? {} : { "aria-pressed": pressed }),
    onClick,
  }, ...children);
}

export function Segments<T extends string>(
  { name, value, options, onChange, hidesName = true }: {
    name: string;
    value: T;
    options: readonly (readonly [T, string])[];
    onChange: (value: T) => void;
    hidesName?: boolean;
  },
): VNode {
  const group = useId();
  return h(
    "fieldset",
    { class: "segments" },
    h("legend", { class: hidesName ? "unseen" : "name" }, name),
    h(
      "div",
      { class: "segments-row" },
      ...options.map(([key, text]) =>
        h(
          "label",
          { key },
          h("input", {
            type: "radio",
            name: group,
            class: "unseen",
            checked: key === value,
            onChange: () => onChange(key),
          }),
          h("span", {}, text),
        )
      ),
    ),
  );
}

/** Gives an element the focus where nobody has it: what had it has left the page. */
export function catchFocus(selector: string): void {
  const isLost = [null, document.body].includes(document.activeElement as HTMLElement | null);
  if (isLost) document.querySelector<HTMLElement>(selector)?.focus();
}

/** Gives a part of the page the focus when it appears, and another one when the part goes with it. */
export function useFocus(own: RefObject<HTMLElement | null>, back: string): void {
  useEffect(() => {
    const part = own.current!;
    const inner = part.querySelector<HTMLElement>("[tabindex='0']") ?? part;
    inner.focus({ preventScroll: true });
    return () => catchFocus(back);
  }, []);
}

/** A mark that is pressed to read what a setting does, and the sentence when it was. */
export function useHint(name: string, text: string | undefined): [VNode | null, VNode | null] {
  const [isOpen, setOpen] = useState(false);
  if (!text) return [null, null];
  return [
    h("button", {
      class: "hint-mark",
      title: text,
      "aria-label": t("about", { name }),
      "aria-expanded": isOpen,
      onClick: () => setOpen(!isOpen),
      onKeyDown: (event) => {
        if (event.key !== "Escape" || !isOpen) return;
        // The drawer that it is in stays open.
        event.stopPropagation();
        setOpen(false);
      },
    }, "?"),
    isOpen ? h("p", { class: "hint" }, text) : null,
  ];
}

/** How far a slider goes where the model names no greatest value, or one that nobody wants. */
const SLIDER_ENDS: Readonly<Record<string, number>> = {
  guidance_scale: 15,
  guidance_scale_2: 15,
  guidance_limit: 3,
  num_inference_steps: 60,
  flow_shift: 16,
};

/** A number with a slider; the number may go beyond it. */
export function NumberSlider(
  { id, name, hint, value, own, least, most, step, onChange }: {
    id: string;
    name: string;
    hint?: string | undefined;
    value: number | undefined;
    own: number | null;
    least: number;
    most: number | undefined;
    step: number;
    onChange: (value: number | undefined) => void;
  },
): VNode {
  // Fields that come later in a list can get the ids of others from the hook alone.
  const field = `${useId()}-${id}`;
  const end = Math.min(most ?? Infinity, Math.max(SLIDER_ENDS[id] ?? Infinity, (own ?? 0) * 1.5));
  const shown = value ?? own ?? undefined;
  const [mark, sentence] = useHint(name, hint);
  const read = (text: string) => {
    const number = Number(text);
    if (text === "") onChange(undefined);
    else if (Number.isFinite(number)) onChange(number);
  };
  const isChosen = value !== undefined && value !== own;
  return h(
    "div",
    { class: "slider" },
    h(
      "div",
      { class: "row" },
      h("label", { for: field, class: "name", title: name }, name),
      mark,
      isChosen && own !== null
        ? h("button", {
          class: "own",
          title: t("resetTo", { value: own }),
          "aria-label": t("backTo", { name, value: own }),
          onClick: () => onChange(undefined),
        }, t("reset"))
        : null,
      h("input", {
        id: field,
        class: "number",
        type: "number",
        min: least,
        max: most,
        step: step < 1 ? "any" : step,
        value: shown ?? "",
        placeholder: t("auto"),
        onChange: (event) => read(event.currentTarget.value),
      }),
    ),
    Number.isFinite(end) && shown !== undefined
      ? h("input", {
        type: "range",
        "aria-label": name,
        min: least,
        max: end,
        step,
        value: Math.min(shown, end),
        style: { "--filled": `${100 * (Math.min(shown, end) - least) / (end - least)}%` },
        onInput: (event) => onChange(Number(event.currentTarget.value)),
      })
      : null,
    sentence,
  );
}

export function Choice(
  { name, hint, value, choices, texts = {}, own, onChange }: {
    name: string;
    hint?: string | undefined;
    value: string | undefined;
    choices: readonly string[];
    /** What choices are called, where not by their names. */
    texts?: Readonly<Record<string, string>>;
    own: string | null;
    onChange: (value: string | undefined) => void;
  },
): VNode {
  const field = useId();
  const [mark, sentence] = useHint(name, hint);
  const row = h(
    "div",
    { class: "row" },
    h("label", { for: field, class: "name", title: name }, name),
    mark,
    h(
      "select",
      {
        id: field,
        value: value ?? own ?? "",
        onChange: (event) => {
          const { value } = event.currentTarget;
          onChange(value === "" || value === own ? undefined : value);
        },
      },
      own === null ? h("option", { value: "" }, t("auto")) : null,
      ...choices.map((choice) =>
        h("option", { key: choice, value: choice }, texts[choice] ?? words(choice))
      ),
    ),
  );
  return h("div", {}, row, sentence);
}

export function Switch(
  { name, hint, value, onChange }: {
    name: string;
    hint?: string | undefined;
    value: boolean;
    onChange: (value: boolean | undefined) => void;
  },
): VNode {
  const field = useId();
  const [mark, sentence] = useHint(name, hint);
  const row = h(
    "div",
    { class: "row switch" },
    h("label", { for: field, class: "name", title: name }, name),
    mark,
    h("input", {
      id: field,
      type: "checkbox",
      role: "switch",
      checked: value,
      onChange: (event) => onChange(event.currentTarget.checked || undefined),
    }),
  );
  return h("div", {}, row, sentence);
}

/** `euler_ancestral` as words. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}
