/** The frame around the image to edit, which grows where it is dragged: what is added is drawn. */

import { useRef, useState } from "preact/hooks";
import { useFocus } from "./controls.ts";
import { choose, draft, type GivenFile, outpaintOf, SIDES } from "./draft.ts";
import { h, type VNode } from "./elements.ts";
import type { Model } from "./model.ts";
import { useStore } from "./store.ts";
import { t } from "./texts.ts";
import { endEditing } from "./view.ts";

/** The longest that an image grows to one side, as the API has it, in pixels. */
const MAX_SIDE = 4096;

export function OutpaintEditor({ source, model }: { source: GivenFile; model: Model }): VNode {
  const own = useRef<HTMLDivElement>(null);
  useFocus(own, ".edit-outpaint");
  const frame = useRef<HTMLDivElement>(null);
  const sides = useStore(draft, outpaintOf) ?? [0, 0, 0, 0];
  const [image, setImage] = useState({ width: 1, height: 1 });
  const step = model.limits.size_multiple;
  const [left, top, right, bottom] = sides as [number, number, number, number];
  const [width, height] = [image.width + left + right, image.height + top + bottom];
  const change = (side: number, pixels: number) => {
    const snapped = Math.min(MAX_SIDE, Math.max(0, Math.round(pixels / step) * step));
    const next = sides.with(side, snapped);
    choose("outpaint", next.some(Boolean) ? next : undefined);
    // What is added is the mask, and the size is that of the frame.
    draft.set({ mask: null, size: "" });
  };
  /** Follows a pointer with a side; the scale is that of the beginning, as the frame shrinks while it grows. */
  const drag = (side: number) => (event: PointerEvent) => {
    const handle = event.currentTarget as HTMLElement;
    const scale = width / frame.current!.getBoundingClientRect().width;
    const [x, y, before] = [event.clientX, event.clientY, sides[side]!];
    const sign = side < 2 ? -1 : 1;
    event.preventDefault();
    handle.focus();
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = ({ clientX, clientY }) =>
      change(side, before + sign * scale * (side % 2 === 0 ? clientX - x : clientY - y));
    handle.onpointerup = handle.onpointercancel = () =>
      handle.onpointermove = handle.onpointerup = handle.onpointercancel = null;
  };
  const onKeyDown = (side: number) => (event: KeyboardEvent) => {
    const outward = ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"][side];
    const inward = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"][side];
    if (event.key !== outward && event.key !== inward) return;
    event.preventDefault();
    change(side, sides[side]! + (event.key === outward ? step : -step));
  };
  const share = (pixels: number, all: number) => `${100 * pixels / all}%`;
  return h(
    "div",
    {
      ref: own,
      class: "mask-editor",
      onKeyDown: ({ key }) => key === "Escape" && endEditing(),
    },
    h(
      "div",
      {
        ref: frame,
        class: "frame outpaint",
        style: { aspectRatio: `${width} / ${height}`, "--shape": width / height },
      },
      h("img", {
        src: source.url,
        alt: t("imageToEdit"),
        draggable: false,
        style: {
          left: share(left, width),
          top: share(top, height),
          width: share(image.width, width),
          height: share(image.height, height),
        },
        onLoad: ({ currentTarget: { naturalWidth: width, naturalHeight: height } }) =>
          setImage({ width, height }),
      }),
      ...SIDES.map((key, side) =>
        h("div", {
          key,
          class: `outpaint-side outpaint-${key}`,
          role: "slider",
          tabIndex: 0,
          "aria-label": t(key),
          "aria-orientation": side % 2 === 0 ? "horizontal" : "vertical",
          "aria-valuemin": 0,
          "aria-valuemax": MAX_SIDE,
          "aria-valuenow": sides[side],
          onPointerDown: drag(side),
          onKeyDown: onKeyDown(side),
        })
      ),
    ),
    h("p", { class: "muted hint" }, t("outpaintHow")),
    h(
      "div",
      { class: "mask-bar" },
      ...SIDES.map((key, side) =>
        h(
          "label",
          { key, class: "brush-size" },
          t(key),
          h("input", {
            type: "number",
            class: "number",
            min: 0,
            max: MAX_SIDE,
            step,
            value: sides[side],
            onChange: ({ currentTarget }) => {
              change(side, Number(currentTarget.value) || 0);
              currentTarget.value = String(outpaintOf(draft.state)?.[side] ?? 0);
            },
          }),
        )
      ),
      h("span", { role: "status" }, `${width} × ${height}`),
      h("button", {
        class: "quiet",
        disabled: !sides.some(Boolean),
        onClick: () => choose("outpaint", undefined),
      }, t("clear")),
      h("button", {
        class: "quiet strong",
        onClick: endEditing,
      }, t("done")),
    ),
  );
}
