/** Two images over each other with a line between them, and the settings that differ. */

import { useEffect, useRef, useState } from "preact/hooks";
import { iconButton } from "./controls.ts";
import { h, icon, type VNode } from "./elements.ts";
import type { Entry } from "./history.ts";
import { type Recipe, recipeAt, recipeOf, resultAt } from "./jobs.ts";
import { blobOf } from "./media.ts";
import { fieldName, t, valueText } from "./texts.ts";
import { type Comparison, comparison, type Side } from "./view.ts";

async function sideOf({ result }: Entry, name: string): Promise<Side> {
  return { url: URL.createObjectURL(await blobOf(result!)), name };
}

/** Compares two results, the newer one first as in the list; the older one is on the left. */
export async function compareResults(one: Entry, other: Entry): Promise<void> {
  const [first, second] = one.job.created_at < other.job.created_at ? [one, other] : [other, one];
  const recipes = await Promise.all([first, second].map(async ({ job, index }) => {
    const recipe = await recipeOf(job.id);
    const { seed = recipe["seed"] } = resultAt(job, index) ?? {};
    return { ...recipeAt(recipe, job, index), seed };
  }));
  const sides = [await sideOf(first, t("first")), await sideOf(second, t("second"))] as const;
  comparison.set({ now: { sides, differences: differences(recipes[0]!, recipes[1]!) } });
}

/** Compares the image that an edit began with and what became of it. */
export async function compareEdit(before: Blob, after: Entry): Promise<void> {
  const first = { url: URL.createObjectURL(before), name: t("before") };
  const sides = [first, await sideOf(after, t("after"))] as const;
  comparison.set({ now: { sides, differences: [] } });
}

function differences(one: Recipe, other: Recipe): Comparison["differences"] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])]
    .map((name) => [fieldName(name), valueText(one[name]), valueText(other[name])] as const)
    .filter(([, first, second]) => first !== second);
}

function close(): void {
  for (const { url } of comparison.state.now?.sides ?? []) URL.revokeObjectURL(url);
  comparison.set({ now: null });
}

export function Compare({ now: { sides, differences } }: { now: Comparison }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [share, setShare] = useState(50);
  useEffect(() => dialog.current!.showModal(), []);
  const [first, second] = sides;
  return h(
    "dialog",
    { ref: dialog, class: "viewer compare", "aria-label": t("compare"), onClose: close },
    h(
      "div",
      { class: "viewer-screen" },
      h(
        "div",
        { class: "viewer-room compare-room" },
        h("img", { src: second.url, alt: second.name, draggable: false }),
        h("img", {
          src: first.url,
          alt: first.name,
          draggable: false,
          style: { clipPath: `inset(0 ${100 - share}% 0 0)` },
        }),
        h("span", { class: "compare-line", style: { left: `${share}%` } }),
        h("input", {
          type: "range",
          "aria-label": t("compareLine", { first: first.name, second: second.name }),
          min: 0,
          max: 100,
          step: "any",
          value: share,
          onInput: (event) => setShare(Number(event.currentTarget.value)),
        }),
      ),
      h(
        "div",
        { class: "viewer-bar" },
        h("span", {}, first.name),
        h(
          "div",
          { class: "compare-settings" },
          differences.length > 0
            ? h(
              "table",
              {},
              ...differences.map(([name, one, other]) =>
                h(
                  "tr",
                  {},
                  h("td", {}, one),
                  h("th", { scope: "row" }, name),
                  h("td", {}, other),
                )
              ),
            )
            : null,
        ),
        h("span", {}, second.name),
        iconButton({ label: t("close"), onClick: close }, icon("close")),
      ),
    ),
  );
}
