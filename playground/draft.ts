/** What is being composed: the next request. */

import type { Model, Output } from "./model.ts";
import { session } from "./session.ts";
import { memory, Store } from "./store.ts";

export interface LoraUse {
  path: string;
  strength: number;
}

export interface GivenFile {
  /** Unique on this page. */
  key: string;
  blob: Blob;
  url: string;
  name: string;
}

/** A picture that steers the image, and how it does. */
export interface ControlFile extends GivenFile {
  /** Values that were chosen, by the names of requests. */
  settings: Record<string, unknown>;
  /** Whether it is the image without what its mask redraws, and no file. */
  isPainted?: boolean;
}

/** An image that an IP-Adapter, or VACE, sees. */
export interface ReferenceFile extends GivenFile {
  /** Values that were chosen, by the names of requests. */
  settings: Record<string, unknown>;
  /** White where the result shows it. */
  mask?: GivenFile | undefined;
}

/** The part that is kept from one visit to the next. */
const KEPT = {
  output: "image" as Output,
  prompt: "",
  /** `<width>x<height>`; empty for the model's own, or the image's. */
  size: "",
  count: 1,
  /** Whether the seed is locked: used for all that follows. */
  keepsSeed: false,
  /** Whether the seed is used for the next result alone. */
  usesSeed: false,
  seed: null as number | null,
  /** Values that were chosen, by name; the model's own for all others. */
  settings: {} as Record<string, unknown>,
  loras: [] as LoraUse[],
  numFrames: null as number | null,
  fps: null as number | null,
  format: "png" as "png" | "jpeg" | "webp",
};

type Kept = typeof KEPT;

export interface Draft extends Kept {
  /** Images to make the result of, in order; of a video the first frame, and others. */
  images: GivenFile[];
  clip: GivenFile | null;
  /** The sound that the video follows. */
  sound: GivenFile | null;
  /** Whether the video goes on where the clip ends. */
  continues: boolean;
  /** White where the first image is redrawn. */
  mask: Blob | null;
  /** Pictures that steer the image. */
  controls: ControlFile[];
  /** Images of what shall be seen in the result. */
  references: ReferenceFile[];
}

export const draft: Store<Draft> = new Store<Draft>({
  ...KEPT,
  ...memory.read<Partial<Kept>>("draft", {}),
  images: [],
  clip: null,
  sound: null,
  continues: false,
  mask: null,
  controls: [],
  references: [],
});

draft.follow(() => {
  const kept = Object.keys(KEPT).map((name) => [name, draft.state[name as keyof Kept]]);
  memory.write("draft", Object.fromEntries(kept));
});

/** Chooses a value of a setting; undefined for the model's own. */
export function choose(name: string, value: unknown): void {
  const { [name]: _, ...others } = draft.state.settings;
  draft.set({ settings: value === undefined ? others : { ...others, [name]: value } });
}

/** Chooses a value for one control picture; undefined for the usual one. */
export function chooseControl(key: string, name: string, value: unknown): void {
  const controls = draft.state.controls.map((control) =>
    control.key === key ? { ...control, settings: { ...control.settings, [name]: value } } : control
  );
  draft.set({ controls });
}

/** Chooses a value, or the mask, of a reference image; undefined for the usual one. */
export function chooseReference(key: string, name: string, value: unknown): void {
  const references = draft.state.references.map((reference) => {
    if (reference.key !== key) return reference;
    if (name === "mask") return { ...reference, mask: value as GivenFile | undefined };
    return { ...reference, settings: { ...reference.settings, [name]: value } };
  });
  draft.set({ references });
}

/** What was chosen for models that were chosen before. */
const lorasOf = new Map<string, LoraUse[]>();
let lastModel = session.state.modelId;

/** LoRAs are made for a model: another one has its own, or those of the last one that it knows, too. */
export function lorasFor(id: string): LoraUse[] {
  const known = session.state.models.find((model) => model.id === id)?.loras ?? [];
  return lorasOf.get(id) ?? draft.state.loras.filter(({ path }) => known.includes(path));
}

session.follow(() => {
  const { modelId } = session.state;
  if (modelId === lastModel || modelId === "") return;
  if (lastModel !== "") {
    const loras = lorasFor(modelId);
    lorasOf.set(lastModel, draft.state.loras);
    draft.set({ loras });
  }
  lastModel = modelId;
});

let files = 0;

export function givenFile(blob: Blob, name: string): GivenFile {
  return { key: `file-${++files}`, blob, url: URL.createObjectURL(blob), name };
}

/** Takes images in, as many as may be; the last ones win where only one may. */
export function addImages(given: readonly GivenFile[], most: number): void {
  const images = [...draft.state.images, ...given];
  const kept = most === 1 ? images.slice(-1) : images.slice(0, most);
  setImages(kept);
}

/** The reference images that the model is given. */
export function givenReferences(
  { limits }: Pick<Model, "limits">,
  { references }: Pick<Draft, "references">,
): ReferenceFile[] {
  return references.slice(0, limits.max_references);
}

/** Sides by which an image grows, in their order. */
export const SIDES = ["sideLeft", "sideTop", "sideRight", "sideBottom"] as const;

/** How many pixels the first image grows by, to each side. */
export function outpaintOf({ settings }: Pick<Draft, "settings">): number[] | undefined {
  return settings["outpaint"] as number[] | undefined;
}

/** Whether a part of the first image is redrawn, and the rest stays. */
export function isMasked(state: Draft): boolean {
  return state.output === "image" && state.images.length > 0 &&
    (state.mask !== null || outpaintOf(state) !== undefined);
}

/** Replaces the images. A mask is of the first one, and so is what it grows by; frames are by place. */
export function setImages(images: GivenFile[]): void {
  const isSame = images[0]?.key === draft.state.images[0]?.key;
  const isSameCount = images.length === draft.state.images.length;
  draft.set({ images, mask: isSame ? draft.state.mask : null });
  if (!isSame) choose("outpaint", undefined);
  if (isSameCount) return;
  choose("image_frames", undefined);
  choose("image_strengths", undefined);
}
