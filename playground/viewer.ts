/** A result by itself: as large as the window, in full size, zoomed and moved, on the whole screen. */

import { useEffect, useRef, useState } from "preact/hooks";
import { iconButton } from "./controls.ts";
import { h, icon, type VNode } from "./elements.ts";
import { type Job, jobs, plays, type Result } from "./jobs.ts";
import { useMedia } from "./media.ts";
import { useStore } from "./store.ts";
import { numeral, t } from "./texts.ts";
import { selectedJob, selectedResult, showNext, view } from "./view.ts";

/** How much larger the image is than the window has room for, and how far it is moved, in pixels. */
interface Zoom {
  scale: number;
  x: number;
  y: number;
}

/** A place of the window. */
type Place = Pick<PointerEvent, "clientX" | "clientY">;

const FITTED: Zoom = { scale: 1, x: 0, y: 0 };
const MAX_SCALE = 32;
const KEY_FACTOR = 1.25;
const KEY_STEP = 80;
/** How far a finger moves before it is no tap, and before it goes to the next result, in pixels. */
const TAP = 6;
const SWIPE = 60;

export function Viewer(): VNode | null {
  const { list } = useStore(jobs, (state) => state);
  useStore(view, (state) => state);
  const job = selectedJob(list);
  const result = selectedResult(list);
  return job && result ? h(Enlarged, { job, result }) : null;
}

function Enlarged({ job, result }: { job: Job; result: Result }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const room = useRef<HTMLDivElement>(null);
  const image = useRef<HTMLImageElement>(null);
  const [zoom, setZoom] = useState(FITTED);
  const [sides, setSides] = useState<{ width: number; height: number }>();
  const url = useMedia(result);
  const isVideo = plays(result);
  const close = () => view.set({ isEnlarged: false });
  useEffect(() => {
    dialog.current!.showModal();
    return () => void (document.fullscreenElement && document.exitFullscreen());
  }, []);

  /** Scale at which a pixel of the image is one of the screen. */
  const fullScale = () => {
    const { naturalWidth, naturalHeight } = image.current!;
    const { clientWidth, clientHeight } = room.current!;
    const fitted = Math.min(clientWidth / naturalWidth, clientHeight / naturalHeight);
    return 1 / fitted / devicePixelRatio;
  };
  /** Zooms, and keeps a place of the window where it is. */
  const zoomTo = (wanted: (scale: number) => number, at?: Place) => {
    if (!image.current?.naturalWidth) return;
    const full = fullScale();
    const { left, top, width, height } = room.current!.getBoundingClientRect();
    const [dx, dy] = at ? [at.clientX - left - width / 2, at.clientY - top - height / 2] : [0, 0];
    setZoom(({ scale: before, x, y }) => {
      const scale = Math.min(
        Math.max(wanted(before), Math.min(1, full)),
        Math.max(MAX_SCALE, full),
      );
      const share = scale / before;
      return scale === 1 ? FITTED : { scale, x: dx - (dx - x) * share, y: dy - (dy - y) * share };
    });
  };
  const toggle = (at?: Place) => zoomTo((scale) => scale === 1 ? fullScale() : 1, at);
  const move = (x: number, y: number) =>
    setZoom((zoom) => ({ ...zoom, x: zoom.x + x, y: zoom.y + y }));
  const toggleScreen = () =>
    void (document.fullscreenElement
      ? document.exitFullscreen()
      : room.current!.parentElement!.requestFullscreen?.().catch(() => {}));

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[
      event.key
    ];
    if (arrow && event.shiftKey) move(-arrow[0]! * KEY_STEP, -arrow[1]! * KEY_STEP);
    else if (arrow && !(event.target instanceof HTMLVideoElement)) showNext(arrow[0]! + arrow[1]!);
    else if (event.key === "f") toggleScreen();
    else if (event.key === "+") zoomTo((scale) => scale * KEY_FACTOR);
    else if (event.key === "-") zoomTo((scale) => scale / KEY_FACTOR);
    else if (event.key === "0") zoomTo(() => 1);
    else if (event.key === "1" && image.current) zoomTo(fullScale);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const percent = image.current?.naturalWidth && sides
    ? ` · ${numeral(zoom.scale / fullScale(), { style: "percent" })}`
    : "";
  return h(
    "dialog",
    {
      ref: dialog,
      class: "viewer",
      "aria-label": job.prompt ?? t("aResult"),
      onClose: close,
      onKeyDown,
    },
    h(
      "div",
      { class: "viewer-screen" },
      h(
        "div",
        {
          ref: room,
          class: `viewer-room${zoom.scale === 1 ? "" : " zoomed"}`,
          ...isVideo ? {} : gestures({ zoom, zoomTo, move, toggle }),
        },
        !url
          ? null
          : isVideo
          ? h("video", { src: url, controls: true, loop: true, autoplay: true, playsInline: true })
          : h("img", {
            ref: image,
            src: url,
            alt: job.prompt ?? t("aResult"),
            draggable: false,
            style: { transform: `translate(${zoom.x}px, ${zoom.y}px) scale(${zoom.scale})` },
            onLoad: ({ currentTarget: { naturalWidth: width, naturalHeight: height } }) =>
              setSides({ width, height }),
          }),
      ),
      h(
        "div",
        { class: "viewer-bar" },
        h(
          "span",
          { class: "viewer-size" },
          sides && !isVideo ? `${sides.width} × ${sides.height}${percent}` : "",
        ),
        iconButton({ label: t("resultBefore"), onClick: () => showNext(-1) }, icon("left")),
        iconButton({ label: t("resultAfter"), onClick: () => showNext(1) }, icon("right")),
        isVideo ? null : iconButton({
          label: t("fullSize"),
          pressed: zoom.scale !== 1,
          onClick: () => toggle(),
        }, icon("zoom")),
        iconButton({ label: t("fullScreen"), onClick: toggleScreen }, icon("screen")),
        iconButton({ label: t("close"), onClick: close }, icon("close")),
      ),
    ),
  );
}

interface Gestures {
  zoom: Zoom;
  zoomTo(wanted: (scale: number) => number, at?: Place): void;
  move(x: number, y: number): void;
  toggle(at: Place): void;
}

/** Pointers that are down, and how far the first went. */
const pointers = new Map<number, Place>();
let travelled = { x: 0, y: 0, isTap: true };

/** A tap zooms, one pointer moves the image or goes to the next one, two zoom. */
function gestures({ zoom, zoomTo, move, toggle }: Gestures) {
  const onPointerMove = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const { pointerId, clientX, clientY } = event;
    const [x, y] = [clientX - before.clientX, clientY - before.clientY];
    const other = [...pointers].find(([id]) => id !== pointerId)?.[1];
    pointers.set(pointerId, { clientX, clientY });
    travelled.x += x;
    travelled.y += y;
    if (other || Math.hypot(travelled.x, travelled.y) > TAP) travelled.isTap = false;
    if (other) {
      const apart = (place: Place) =>
        Math.hypot(place.clientX - other.clientX, place.clientY - other.clientY);
      const middle = {
        clientX: (clientX + other.clientX) / 2,
        clientY: (clientY + other.clientY) / 2,
      };
      const factor = apart(event) / Math.max(1, apart(before));
      zoomTo((scale) => scale * factor, middle);
    } else if (zoom.scale !== 1) move(x, y);
  };
  const onPointerUp = (event: PointerEvent) => {
    const wasLast = pointers.delete(event.pointerId) && pointers.size === 0;
    if (!wasLast || event.type !== "pointerup") return;
    const { x, y, isTap } = travelled;
    if (isTap) toggle(event);
    else if (zoom.scale === 1 && Math.abs(x) > Math.max(SWIPE, Math.abs(y))) {
      showNext(x < 0 ? 1 : -1);
    }
  };
  return {
    onWheel: (event: WheelEvent) => {
      event.preventDefault();
      const pixels = event.deltaY * (event.deltaMode === 0 ? 1 : 32);
      zoomTo((scale) => scale * Math.exp(-pixels / 400), event);
    },
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
      if (pointers.size === 0) travelled = { x: 0, y: 0, isTap: true };
      pointers.set(event.pointerId, event);
    },
    onPointerMove,
    onPointerUp,
    onPointerCancel: onPointerUp,
  };
}
