/** The seed of what is drawn next: its number, and whether it stays. */

import { useId } from "preact/hooks";
import { iconButton, useHint } from "./controls.ts";
import { type Draft, draft } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { jobs } from "./jobs.ts";
import { useStore } from "./store.ts";
import { settingHint, t } from "./texts.ts";
import { selectedResult, view } from "./view.ts";

export function Seed({ state }: { state: Draft }): VNode {
  const field = useId();
  useStore(view, (state) => state);
  const last = useStore(jobs, ({ list }) => selectedResult(list)?.seed ?? null);
  const { keepsSeed, usesSeed } = state;
  const seed = keepsSeed || usesSeed ? state.seed : last;
  const [mark, sentence] = useHint(t("seed"), settingHint("seed"));
  const hint = t(keepsSeed ? "seedLocked" : usesSeed ? "seedOnce" : "seedNew");
  return h(
    "div",
    { class: "seed-field" },
    h(
      "div",
      { class: "row" },
      h("label", { class: "name", for: field }, t("seed")),
      mark,
      h("input", {
        id: field,
        class: keepsSeed || usesSeed ? "number seed" : "number seed muted",
        type: "number",
        min: 0,
        step: 1,
        value: seed ?? "",
        placeholder: t("random"),
        "aria-describedby": `${field}hint`,
        onChange: (event) => {
          const { value } = event.currentTarget;
          const seed = Math.floor(Number(value));
          if (value === "") draft.set({ keepsSeed: false, usesSeed: false });
          else if (Number.isSafeInteger(seed) && seed >= 0) draft.set({ keepsSeed: true, seed });
          else event.currentTarget.value = String(state.seed ?? "");
        },
      }),
      iconButton({
        label: t("lockSeed"),
        pressed: keepsSeed,
        onClick: () =>
          draft.set(
            keepsSeed
              ? { keepsSeed: false, usesSeed: false }
              : { keepsSeed: true, seed: seed ?? Math.floor(Math.random() * 2 ** 32) },
          ),
      }, icon(keepsSeed ? "locked" : "unlocked")),
    ),
    h("p", { class: "hint", id: `${field}hint` }, hint),
    sentence,
  );
}
