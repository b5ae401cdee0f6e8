/** The seed: a new one each time, or the same again. */

import { h } from "preact";
import { useId } from "preact/hooks";
import { Segments } from "./controls.ts";
import { type Draft, draft } from "./draft.ts";
import { div, input, label, type VNode } from "./elements.ts";
import { jobs } from "./jobs.ts";
import { selectedResult } from "./view.ts";

/** The choice, and the number where it is kept. */
export function Seed({ state }: { state: Draft }): VNode {
  const field = useId();
  const onChange = (way: "new" | "again") =>
    draft.set(
      way === "new" ? { keepsSeed: false } : {
        keepsSeed: true,
        seed: selectedResult(jobs.state.list)?.seed ?? state.seed ?? 0,
      },
    );
  return div(
    { class: "row" },
    label({ class: "name", for: field }, "Seed"),
    state.keepsSeed
      ? input({
        id: field,
        class: "number seed",
        type: "number",
        min: 0,
        step: 1,
        value: state.seed ?? 0,
        onChange: (event) => {
          const seed = Math.floor(Number(event.currentTarget.value));
          if (Number.isSafeInteger(seed) && seed >= 0) draft.set({ seed });
        },
      })
      : null,
    h(Segments<"new" | "again">, {
      name: "Seed of the next result",
      value: state.keepsSeed ? "again" : "new",
      options: [["new", "New"], ["again", "Again"]],
      onChange,
    }),
  );
}
