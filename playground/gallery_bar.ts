/** Above the results: the search, the stars, and what is done with those that are selected. */

import { useRef } from "preact/hooks";
import { iconButton, useFocus } from "./controls.ts";
import { h, icon, type VNode } from "./elements.ts";
import { type Entry, history, keyOf } from "./history.ts";
import { jobs, removeSoon, undoRemoval } from "./jobs.ts";
import { download, downloadArchive, fileName } from "./media.ts";
import { useStore } from "./store.ts";
import { t } from "./texts.ts";
import { attempt, tell } from "./view.ts";

export function GalleryBar({ entries }: { entries: readonly Entry[] }): VNode {
  const { query, onlyStarred, isSelecting, selected } = useStore(history, (state) => state);
  const chosen = entries.filter((entry) => selected.includes(keyOf(entry)));
  const end = () => history.set({ isSelecting: false, selected: [] });
  return h(
    "div",
    { class: "gallery-bar", role: "search" },
    h("input", {
      type: "search",
      "aria-label": t("searchResults"),
      placeholder: t("search"),
      value: query,
      onInput: (event) => history.set({ query: event.currentTarget.value }),
    }),
    iconButton({
      label: t("onlyStarred"),
      pressed: onlyStarred,
      onClick: () => history.set({ onlyStarred: !onlyStarred }),
    }, icon("star")),
    iconButton({
      label: t("select"),
      pressed: isSelecting,
      onClick: () => isSelecting ? end() : history.set({ isSelecting: true }),
    }, icon("check")),
    isSelecting ? h(Selected, { chosen, end }) : null,
  );
}

function Selected({ chosen, end }: { chosen: readonly Entry[]; end: () => void }): VNode {
  return h(
    "div",
    { class: "selected" },
    h("span", { role: "status" }, t("selectedCount", { count: chosen.length })),
    h("button", {
      class: "quiet",
      disabled: chosen.length === 0,
      onClick: () => {
        removeSoon(chosen.map((entry) => entry.result ? keyOf(entry) : entry.job.id), tell);
        end();
      },
    }, t("delete")),
    h("button", {
      class: "quiet",
      disabled: chosen.length === 0,
      onClick: () =>
        void attempt(async () => {
          const [first] = chosen;
          if (chosen.length > 1) {
            await downloadArchive(chosen.map(({ job, index }) => `${job.id}/${index}`));
          } else if (first?.result) await download(first.result, fileName(first.job, first.index));
        }),
    }, t("download")),
    h("button", {
      class: "quiet",
      disabled: chosen.length !== 2 || chosen.some(({ result }) => !isImage(result)),
      onClick: () =>
        void attempt(async () => {
          const { compareResults } = await import("./compare.ts");
          await compareResults(chosen[0]!, chosen[1]!);
        }),
    }, t("compare")),
  );
}

function isImage(result: Entry["result"]): boolean {
  return result?.content_type.startsWith("image/") ?? false;
}

/** Takes back a deletion for as long as that is possible. */
export function UndoRemoval(): VNode | null {
  const removed = useStore(jobs, ({ removed }) => removed);
  return h(
    "div",
    { class: "toast", role: "status" },
    removed
      ? [
        h(
          "span",
          {},
          removed.count > 1 ? t("deletedCount", { count: removed.count }) : t("deleted"),
        ),
        h(UndoButton, { key: String(removed.count) }),
      ]
      : null,
  );
}

/** It has the focus of the button that deleted: the next one in its place would delete, too. */
function UndoButton(): VNode {
  const own = useRef<HTMLButtonElement>(null);
  useFocus(own, ".stage");
  return h("button", { ref: own, class: "own", onClick: undoRemoval }, t("undo"));
}
