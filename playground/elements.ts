/** Elements by a function, instead of JSX: a browser runs the source without its types. */

import { type ComponentChildren, h as make, type JSX, type VNode as AnyNode } from "preact";

// deno-lint-ignore no-explicit-any -- of whatever properties
export type VNode = AnyNode<any>;

type Tag = keyof JSX.IntrinsicElements;

/** An element by its tag, attributes and what is in it, or a view by its function. A button sends no form unless it says so. */
export function h<T extends Tag>(
  tag: T,
  attributes: JSX.IntrinsicElements[T] & { key?: string },
  ...children: ComponentChildren[]
): VNode;
export function h<Properties>(
  view: (properties: Properties) => VNode | null,
  properties: Properties & { key?: string },
): VNode;
export function h(kind: unknown, properties: object, ...children: ComponentChildren[]): VNode {
  const all = kind === "button" ? { type: "button", ...properties } : properties;
  // deno-lint-ignore no-explicit-any -- preact knows tags one at a time only
  return make(kind as any, all as any, ...children) as VNode;
}

const PATHS = {
  again: "M4 12a8 8 0 1 1 2.6 5.9M4 19v-5h5",
  vary:
    "M4 7h3c5 0 5 10 10 10h3m-3-3 3 3-3 3M4 17h3c1.6 0 2.6-1 3.4-2.4M13.6 9.4C14.4 8 15.4 7 17 7h3m-3-3 3 3-3 3",
  edit: "M4 20l1-4L16.5 4.5a2 2 0 0 1 3 3L8 19l-4 1zM14 7l3 3",
  animate: "M4 6h11v12H4zM15 10l5-3v10l-5-3",
  download: "M12 4v11m-4-4 4 4 4-4M5 20h14",
  remove: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  close: "M6 6l12 12M18 6L6 18",
  add: "M12 5v14M5 12h14",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01",
  eye: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  sound: "M4 10v4h4l5 4V6L8 10zM16 9a4 4 0 0 1 0 6M18.5 6.5a8 8 0 0 1 0 11",
  steer: "M4 20L10 6l4 9 3-6 3 11M4 20h16",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  zoom: "M10 5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 1 0 0-11M14 14.5l5.5 5.5M7.5 10.5h5M10 8v5",
  screen: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  grid: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z",
  locked: "M7 11V8a5 5 0 0 1 10 0v3M5 11h14v9H5z",
  unlocked: "M7 11V8a5 5 0 0 1 9.6-2M5 11h14v9H5z",
  swap: "M4 9h14m-3-3 3 3-3 3M20 16H6m3-3-3 3 3 3",
  star: "M12 4l2.5 5.2 5.5.8-4 3.9 1 5.6-5-2.7-5 2.7 1-5.6-4-3.9 5.5-.8z",
  check: "M4 4h16v16H4zM8 12l3 3 5-6",
  compare: "M12 3v18M4 5h5v14H4zM15 5h5v14h-5",
  undo: "M5 9h9a5 5 0 0 1 0 10h-4M5 9l4-4M5 9l4 4",
  brush: "M5 19c0-3 2-4 4-4l7-10a2 2 0 0 1 3 2l-9 9c0 2-2 3-5 3z",
  loop: "M6 9h10a3 3 0 0 1 0 6H6m0 0 3-3m-3 3 3 3M9 6 6 9l3 3",
  settings:
    "M4 8h9M19 8h1M4 16h1M11 16h9M13 8a3 3 0 1 0 6 0 3 3 0 1 0-6 0M5 16a3 3 0 1 0 6 0 3 3 0 1 0-6 0",
  key: "M14 10a4 4 0 1 0-3 3.9L13 16h2v2h2v2h3v-3l-6.2-6.2z",
} as const;

/** Draws an icon; what it means is said beside it, or by its button. */
export function icon(name: keyof typeof PATHS): VNode {
  return h(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" },
    h("path", { d: PATHS[name] }),
  );
}
