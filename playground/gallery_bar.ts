/** Above the results: the search, the stars, and what is done with those that are selected. */

import { compareResults } from "./compare.ts";
import { iconButton } from "./controls.ts";
import { h, icon, type VNode } from "./elements.ts";
import { type Entry, history, keyOf } from "./history.ts";
import { jobs, removeSoon, undoRemoval } from "./jobs.ts";
import { download, downloadArchive, fileName } from "./media.ts";
import { useStore } from "./store.ts";
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
      "aria-label": "Search the results",
      placeholder: "Search",
      value: query,
      onInput: (event) => history.set({ query: event.currentTarget.value }),
    }),
    iconButton({
      label: "Only starred",
      pressed: onlyStarred,
      onClick: () => history.set({ onlyStarred: !onlyStarred }),
    }, icon("star")),
    iconButton({
      label: "Select",
      pressed: isSelecting,
      onClick: () => isSelecting ? end() : history.set({ isSelecting: true }),
    }, icon("check")),
    isSelecting ? h(Selected, { chosen, end }) : null,
  );
}

function Selected({ chosen, end }: { chosen: readonly Entry[]; end: () => void }): VNode {
  const ids = [...new Set(chosen.map(({ job }) => job.id))];
  // A request is deleted with all its results.
  const deleted = jobs.state.list.filter(({ id }) => ids.includes(id))
    .reduce((sum, { outputs }) => sum + Math.max(1, outputs?.length ?? 0), 0);
  return h(
    "div",
    { class: "selected" },
    h("span", { role: "status" }, `${chosen.length} selected`),
    h("button", {
      class: "quiet",
      disabled: chosen.length === 0,
      onClick: () => {
        removeSoon(ids, deleted, tell);
        end();
      },
    }, deleted > chosen.length ? `Delete ${deleted}, with their batches` : "Delete"),
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
    }, "Download"),
    h("button", {
      class: "quiet",
      disabled: chosen.length !== 2 || chosen.some(({ result }) => !isImage(result)),
      onClick: () => void attempt(() => compareResults(chosen[0]!, chosen[1]!)),
    }, "Compare"),
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
        h("span", {}, removed.count > 1 ? `${removed.count} results deleted.` : "Deleted."),
        h("button", { class: "own", onClick: undoRemoval }, "Undo"),
      ]
      : null,
  );
}
