/** Painting the mask of an image: the part to redraw. */

import { useEffect, useRef, useState } from "preact/hooks";
import { iconButton } from "./controls.ts";
import { choose, draft, type GivenFile } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { t } from "./texts.ts";
import { view } from "./view.ts";

/** Strokes of the images that were masked, so that they can be gone on with. */
const kept = new Map<string, Stroke[]>();

/** How far an arrow key moves the brush, as a share of the image. */
const KEY_STEP = 0.03;

export function MaskEditor({ source }: { source: GivenFile }): VNode {
  const layer = useRef<HTMLCanvasElement>(null);
  const [strokes, setStrokes] = useState(kept.get(source.key) ?? []);
  const [brush, setBrush] = useState(0.12);
  const [erases, setErases] = useState(false);
  const [size, setSize] = useState({ width: 1, height: 1 });
  const [cursor, setCursor] = useState<[number, number]>([0.5, 0.5]);
  const current = useRef<Stroke | null>(null);

  useEffect(() => {
    const context = layer.current?.getContext("2d");
    if (context) drawMask(context, [...strokes, ...current.current ? [current.current] : []]);
  });
  const change = (next: Stroke[]) => {
    kept.set(source.key, next);
    setStrokes(next);
    void maskBlob(size, next).then((mask) => {
      draft.set({ mask });
      // What is added is the mask, where there is one.
      if (mask) choose("outpaint", undefined);
    });
  };
  const undo = () => change(strokes.slice(0, -1));
  const place = (event: PointerEvent): [number, number] => {
    const box = layer.current!.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const onPointerMove = (event: PointerEvent) => {
    if (!current.current) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length > 0 ? events : [event]) current.current.points.push(place(one));
    drawMask(layer.current!.getContext("2d")!, [...strokes, current.current]);
  };
  const finish = () => {
    const stroke = current.current;
    current.current = null;
    if (stroke) change([...strokes, stroke]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const [x, y] = cursor;
    const move = {
      ArrowLeft: [-KEY_STEP, 0],
      ArrowRight: [KEY_STEP, 0],
      ArrowUp: [0, -KEY_STEP],
      ArrowDown: [0, KEY_STEP],
    }[event.key];
    if ((event.ctrlKey || event.metaKey) && event.key === "z") undo();
    else if (event.key === " ") change([...strokes, { points: [cursor], brush, erases }]);
    else if (move) {
      const clamp = (value: number) => Math.min(1, Math.max(0, value));
      const next: [number, number] = [clamp(x + move[0]!), clamp(y + move[1]!)];
      setCursor(next);
      if (event.shiftKey) change([...strokes, { points: [cursor, next], brush, erases }]);
    } else return;
    event.preventDefault();
  };

  return h(
    "div",
    { class: "mask-editor" },
    h(
      "div",
      {
        class: "frame",
        style: {
          aspectRatio: `${size.width} / ${size.height}`,
          "--shape": size.width / size.height,
        },
      },
      h("img", {
        class: size.width <= 256 ? "result small" : "result",
        src: source.url,
        alt: t("imageToEdit"),
        onLoad: ({ currentTarget: { naturalWidth: width, naturalHeight: height } }) =>
          setSize({ width, height }),
      }),
      h("canvas", {
        ref: layer,
        class: "mask",
        tabIndex: 0,
        role: "img",
        "aria-label": t("maskKeys"),
        width: Math.max(512, size.width),
        height: Math.round(Math.max(512, size.width) * size.height / size.width),
        onPointerDown: (event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          current.current = { points: [place(event)], brush, erases };
          onPointerMove(event);
        },
        onPointerMove,
        onPointerUp: finish,
        onPointerCancel: finish,
        onKeyDown,
      }),
      h("div", {
        class: "brush",
        style: {
          left: `${100 * cursor[0]}%`,
          top: `${100 * cursor[1]}%`,
          width: `${100 * brush}%`,
        },
      }),
    ),
    h("p", { class: "muted hint" }, t("maskHow")),
    h(
      "div",
      { class: "mask-bar" },
      h(
        "label",
        { class: "brush-size" },
        t("brush"),
        h("input", {
          type: "range",
          min: 0.02,
          max: 0.4,
          step: 0.01,
          value: brush,
          style: { "--filled": `${100 * (brush - 0.02) / 0.38}%` },
          onInput: (event) => setBrush(Number(event.currentTarget.value)),
        }),
      ),
      h("button", {
        class: "quiet",
        "aria-pressed": erases,
        onClick: () => setErases(!erases),
      }, t("erase")),
      iconButton({ label: t("undo"), disabled: strokes.length === 0, onClick: undo }, icon("undo")),
      h("button", {
        class: "quiet",
        disabled: strokes.length === 0,
        onClick: () => change([]),
      }, t("clear")),
      h("button", {
        class: "quiet strong",
        onClick: () => view.set({ editing: null }),
      }, t("done")),
    ),
  );
}

/** A stroke; places and brush are shares of the image's width and height. */
interface Stroke {
  points: [number, number][];
  /** Width of the brush, as a share of the image's width. */
  brush: number;
  erases: boolean;
}

function drawMask(
  context: CanvasRenderingContext2D,
  strokes: readonly Stroke[],
  colour = "#ff4d6d",
): void {
  const { width, height } = context.canvas;
  context.clearRect(0, 0, width, height);
  context.lineCap = context.lineJoin = "round";
  context.strokeStyle = colour;
  for (const { points, brush, erases } of strokes) {
    context.globalCompositeOperation = erases ? "destination-out" : "source-over";
    context.lineWidth = brush * width;
    context.beginPath();
    const [first = [0, 0]] = points;
    context.moveTo(first[0] * width, first[1] * height);
    // A stroke of one point is a spot.
    for (const [x, y] of points) context.lineTo(x * width + 0.01, y * height);
    context.stroke();
  }
  context.globalCompositeOperation = "source-over";
}

/** The mask as a file, white where the image is redrawn; null where nothing was painted. */
async function maskBlob(
  { width, height }: { width: number; height: number },
  strokes: readonly Stroke[],
): Promise<Blob | null> {
  if (strokes.length === 0) return null;
  const sheet = document.createElement("canvas");
  Object.assign(sheet, { width, height });
  const context = sheet.getContext("2d")!;
  drawMask(context, strokes, "#fff");
  context.globalCompositeOperation = "destination-over";
  context.fillRect(0, 0, width, height);
  return await new Promise((resolve) => sheet.toBlob(resolve, "image/png"));
}
