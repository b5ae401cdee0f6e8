/**
 * Elements as functions, in place of JSX: what a browser runs is then the source without its types.
 */

import { type ComponentChildren, h, type JSX, type VNode as AnyNode } from "preact";

/** What is drawn. */
// deno-lint-ignore no-explicit-any -- of whatever properties
export type VNode = AnyNode<any>;

/** Names of elements. */
type Tag = keyof JSX.IntrinsicElements;

/** Makes an element of its attributes and what is in it. */
type Maker<T extends Tag> = (
  attributes: JSX.IntrinsicElements[T] & { key?: string },
  ...children: ComponentChildren[]
) => VNode;

function maker<T extends Tag>(tag: T): Maker<T> {
  return (attributes, ...children) =>
    // deno-lint-ignore no-explicit-any -- h() knows tags one at a time only
    h(tag as any, attributes as any, ...children) as VNode;
}

export const a: Maker<"a"> = maker("a");
export const aside: Maker<"aside"> = maker("aside");
export const button: Maker<"button"> = maker("button");
export const canvas: Maker<"canvas"> = maker("canvas");
export const datalist: Maker<"datalist"> = maker("datalist");
export const dd: Maker<"dd"> = maker("dd");
export const details: Maker<"details"> = maker("details");
export const dialog: Maker<"dialog"> = maker("dialog");
export const div: Maker<"div"> = maker("div");
export const dl: Maker<"dl"> = maker("dl");
export const dt: Maker<"dt"> = maker("dt");
export const fieldset: Maker<"fieldset"> = maker("fieldset");
export const figcaption: Maker<"figcaption"> = maker("figcaption");
export const figure: Maker<"figure"> = maker("figure");
export const form: Maker<"form"> = maker("form");
export const h1: Maker<"h1"> = maker("h1");
export const h2: Maker<"h2"> = maker("h2");
export const header: Maker<"header"> = maker("header");
export const img: Maker<"img"> = maker("img");
export const input: Maker<"input"> = maker("input");
export const label: Maker<"label"> = maker("label");
export const legend: Maker<"legend"> = maker("legend");
export const li: Maker<"li"> = maker("li");
export const main: Maker<"main"> = maker("main");
export const option: Maker<"option"> = maker("option");
export const p: Maker<"p"> = maker("p");
export const path: Maker<"path"> = maker("path");
export const progress: Maker<"progress"> = maker("progress");
export const section: Maker<"section"> = maker("section");
export const select: Maker<"select"> = maker("select");
export const span: Maker<"span"> = maker("span");
export const summary: Maker<"summary"> = maker("summary");
export const svg: Maker<"svg"> = maker("svg");
export const textarea: Maker<"textarea"> = maker("textarea");
export const ul: Maker<"ul"> = maker("ul");
export const video: Maker<"video"> = maker("video");
