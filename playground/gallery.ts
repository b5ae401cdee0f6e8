/** All results, the newest first. */

import { useEffect, useRef, useState } from "preact/hooks";
import { h, icon, type VNode } from "./elements.ts";
import { GalleryBar } from "./gallery_bar.ts";
import { type Entry, history, isFiltered, keyOf, toggleSelected } from "./history.ts";
import { isPending, isSound, type Job, jobs, live, plays, readMore, type Result } from "./jobs.ts";
import { useMedia } from "./media.ts";
import { useStore } from "./store.ts";
import { t } from "./texts.ts";
import { attempt, entriesOf, selectedIndex, selectedJob, show, view } from "./view.ts";

/** As many results as a search looks for in older ones. */
const MANY = 60;

export function Gallery(): VNode {
  const { list, hasMore } = useStore(jobs, (state) => state);
  useStore(view, (state) => state);
  const selected = selectedJob(list);
  const index = selected && selectedIndex(selected);
  const found = useStore(history, (state) => state);
  const entries = entriesOf(list);
  const isShown = ({ job, index: place }: Entry) =>
    job.id === selected?.id && (index === null || index === place);
  // Tab goes to one result, and arrows go on from there.
  const reached = entries.find(isShown) ?? entries[0];
  const wantsMore = isFiltered(found) && hasMore && entries.length < MANY;
  useEffect(() => {
    if (wantsMore) void attempt(readMore);
  }, [wantsMore, list]);
  return h(
    "aside",
    { class: "gallery", "aria-label": t("results") },
    h("h2", { class: "unseen" }, t("results")),
    h(GalleryBar, { entries }),
    h(
      "ul",
      { onKeyDown: moveFocus },
      ...entries.map((entry) =>
        h(Tile, {
          key: keyOf(entry),
          ...entry,
          isStarred: found.stars.includes(keyOf(entry)),
          isMarked: found.isSelecting ? found.selected.includes(keyOf(entry)) : undefined,
          isSelected: isShown(entry),
          isReached: entry === reached,
        })
      ),
    ),
    hasMore
      ? h("button", { class: "quiet", onClick: () => void attempt(readMore) }, t("olderResults"))
      : null,
  );
}

interface TileOptions {
  job: Job;
  result: Result | undefined;
  index: number;
  isSelected: boolean;
  isReached: boolean;
  isStarred: boolean;
  /** Whether it is among those that something is done with; undefined while none are selected. */
  isMarked: boolean | undefined;
}

function Tile(
  { job, result, index, isSelected, isReached, isStarred, isMarked }: TileOptions,
): VNode {
  const place = useRef<HTMLLIElement>(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => {
      if (!entry?.isIntersecting) return;
      setNear(true);
      observer.disconnect();
    }, { rootMargin: "300px" });
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  const url = useMedia(result, isNear);
  const text = stateText(job, job.prompt ?? t("aResult"));
  return h(
    "li",
    { ref: place, class: `tile ${job.status}` },
    h(
      "button",
      {
        "aria-label": text,
        "aria-current": isSelected ? "true" : undefined,
        tabIndex: isReached ? 0 : -1,
        ...(isMarked === undefined ? {} : { "aria-pressed": isMarked }),
        title: job.prompt ?? "",
        onClick: () =>
          isMarked === undefined ? show(job.id, index) : toggleSelected(keyOf({ job, index })),
      },
      result && isSound(result)
        ? h("span", { class: "mark", "aria-hidden": "true" }, "♪")
        : result && url && isNear
        ? plays(result)
          ? [
            h("video", { src: url, muted: true, preload: "metadata", tabIndex: -1 }),
            h("span", { class: "mark", "aria-hidden": "true" }, "▶"),
          ]
          : h("img", { src: url, alt: "", loading: "lazy", decoding: "async" })
        : isPending(job)
        ? h(Pending, { job })
        : job.status === "failed"
        ? h("span", { class: "mark", "aria-hidden": "true" }, "!")
        : null,
      isStarred ? h("span", { class: "starred" }, icon("star")) : null,
    ),
  );
}

function Pending({ job }: { job: Job }): VNode {
  const now = useStore(live, (state) => state.id === job.id ? state : undefined);
  return now?.preview
    ? h("img", { src: now.preview, alt: "" })
    : h("span", { class: "mark", "aria-hidden": "true" }, job.status === "queued" ? "…" : "");
}

function stateText({ status, kind }: Job, prompt: string): string {
  if (status === "queued") return t("waiting", { prompt });
  if (status === "in_progress") return t("running", { prompt });
  if (status === "failed") return t("hasFailed", { prompt });
  return kind === "video" ? t("videoOf", { prompt }) : prompt;
}

/** Arrow keys go from one result to the next. */
function moveFocus(event: KeyboardEvent): void {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (step === undefined) return;
  const list = event.currentTarget as HTMLElement;
  const tiles = [...list.querySelectorAll<HTMLButtonElement>(".tile button")];
  const next = tiles[tiles.indexOf(document.activeElement as HTMLButtonElement) + step];
  if (!next) return;
  next.focus();
  // Of several that are selected, none is shown.
  if (!history.state.isSelecting) next.click();
  event.preventDefault();
}
