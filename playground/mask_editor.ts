/** Painting the mask of an image: the part to redraw. */

import { useEffect, useRef, useState } from "preact/hooks";
import { iconButton, useFocus } from "./controls.ts";
import { choose, draft, type GivenFile } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { t } from "./texts.ts";
import { endEditing } from "./view.ts";

/** What was painted over images, so that it can be gone on with. */
const kept = new Map<string, Painting>();

interface Painting {
  strokes: readonly Stroke[];
  /** A mask that came with the image, opaque where it redraws. */
  ground: HTMLCanvasElement | undefined;
}

/** How far an arrow key moves the brush, as a share of the image. */
const KEY_STEP = 0.03;

export function MaskEditor({ source }: { source: GivenFile }): VNode {
  const own = useRef<HTMLDivElement>(null);
  useFocus(own, ".edit-mask");
  const layer = useRef<HTMLCanvasElement>(null);
  const [painting, setPainting] = useState(
    kept.get(source.key) ?? { strokes: [], ground: undefined },
  );
  const { strokes, ground } = painting;
  const [brush, setBrush] = useState(0.12);
  const [erases, setErases] = useState(false);
  const [size, setSize] = useState({ width: 1, height: 1 });
  const [cursor, setCursor] = useState<[number, number]>([0.5, 0.5]);
  const current = useRef<Stroke | null>(null);

  useEffect(() => {
    const context = layer.current?.getContext("2d");
    const drawn = [...strokes, ...current.current ? [current.current] : []];
    if (context) drawMask(context, { ground, strokes: drawn });
  });
  useEffect(() => {
    const { mask } = draft.state;
    if (!mask || kept.has(source.key)) return;
    groundOf(mask).then((ground) => setPainting(({ strokes }) => ({ strokes, ground })), () => {});
  }, []);
  const change = (change: Partial<Painting>) => {
    const next = { ...painting, ...change };
    kept.set(source.key, next);
    setPainting(next);
    void maskBlob(size, next).then((mask) => {
      draft.set({ mask });
      // What is added is the mask, where there is one.
      if (mask) choose("outpaint", undefined);
    });
  };
  // What was cleared comes back before earlier strokes go.
  const [cleared, setCleared] = useState<Painting>();
  const canUndo = strokes.length > 0 || cleared !== undefined;
  const undo = () => {
    if (strokes.length > 0) change({ strokes: strokes.slice(0, -1) });
    else if (cleared) {
      change(cleared);
      setCleared(undefined);
    }
    layer.current!.focus();
  };
  const place = (event: PointerEvent): [number, number] => {
    const box = layer.current!.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const onPointerMove = (event: PointerEvent) => {
    if (!current.current) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length > 0 ? events : [event]) current.current.points.push(place(one));
    drawMask(layer.current!.getContext("2d")!, {
      ground,
      strokes: [...strokes, current.current],
    });
  };
  const finish = () => {
    const stroke = current.current;
    current.current = null;
    if (stroke) change({ strokes: [...strokes, stroke] });
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
    else if (event.key === " ") {
      change({ strokes: [...strokes, { points: [cursor], brush, erases }] });
    } else if (move) {
      const clamp = (value: number) => Math.min(1, Math.max(0, value));
      const next: [number, number] = [clamp(x + move[0]!), clamp(y + move[1]!)];
      setCursor(next);
      if (event.shiftKey) {
        change({ strokes: [...strokes, { points: [cursor, next], brush, erases }] });
      }
    } else return;
    event.preventDefault();
  };

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
      iconButton({ label: t("undo"), disabled: !canUndo, onClick: undo }, icon("undo")),
      h("button", {
        class: "quiet",
        disabled: strokes.length === 0 && !ground,
        onClick: () => {
          setCleared(painting);
          change({ strokes: [], ground: undefined });
          layer.current!.focus();
        },
      }, t("clear")),
      h("button", {
        class: "quiet strong",
        onClick: endEditing,
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
  { ground, strokes }: Painting,
  colour = "#ff4d6d",
): void {
  const { width, height } = context.canvas;
  context.clearRect(0, 0, width, height);
  if (ground) {
    context.drawImage(ground, 0, 0, width, height);
    context.globalCompositeOperation = "source-in";
    context.fillStyle = colour;
    context.fillRect(0, 0, width, height);
    context.globalCompositeOperation = "source-over";
  }
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

/** A mask's white as what is opaque. */
async function groundOf(mask: Blob): Promise<HTMLCanvasElement> {
  const image = await createImageBitmap(mask);
  const sheet = document.createElement("canvas");
  Object.assign(sheet, { width: image.width, height: image.height });
  const context = sheet.getContext("2d")!;
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height);
  for (let i = 0; i < pixels.data.length; i += 4) pixels.data[i + 3] = pixels.data[i]!;
  context.putImageData(pixels, 0, 0);
  return sheet;
}

/** The mask as a file, white where the image is redrawn; null where nothing was painted. */
async function maskBlob(
  { width, height }: { width: number; height: number },
  painting: Painting,
): Promise<Blob | null> {
  if (painting.strokes.length === 0 && !painting.ground) return null;
  const sheet = document.createElement("canvas");
  Object.assign(sheet, { width, height });
  const context = sheet.getContext("2d")!;
  drawMask(context, painting, "#fff");
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = "#000";
  context.fillRect(0, 0, width, height);
  return await new Promise((resolve) => sheet.toBlob(resolve, "image/png"));
}
