/** Images and clips that the request brings: chosen, dropped or pasted, in an order. */

import { useRef } from "preact/hooks";
import { iconButton, Segments } from "./controls.ts";
import {
  addImages,
  type Draft,
  draft,
  type GivenFile,
  givenFile,
  givenReferences,
  outpaintOf,
  setImages,
} from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import { kindOf, offer, offerRecipe, takeOffer } from "./given_files.ts";
import { takeLoras } from "./lora_files.ts";
import { keyFrames } from "./key_frames.ts";
import { controlsOf } from "./request.ts";
import { does, maxImages, type Model, takesControl, takesSound, takesVideo } from "./model.ts";
import { useStore } from "./store.ts";
import { t } from "./texts.ts";
import { tell, view } from "./view.ts";

/** Takes in what was dropped, pasted or chosen, and tells what of it is of no use. */
export async function takeFiles(model: Model, list: FileList | null | undefined): Promise<void> {
  const { images, clips, sounds, loras, notes } = await sorted([...list ?? []]);
  const [clip] = clips;
  takeSound(model, sounds[0], notes);
  if (clip && takesVideo(model)) {
    draft.set({ output: "video", clip: givenFile(clip, clip.name), images: [], mask: null });
    if (clips.length > 1 || images.length > 0) notes.push(t("onlyUsed", { name: clip.name }));
  } else {
    if (clip) notes.push(t("noVideos"));
    takeImages(model, images, notes);
  }
  tell(notes.join(" "));
  if (loras.length > 0) await takeLoras(model, loras);
  await offerRecipe(images.length === 1 ? images[0] : undefined);
}

function takeSound(model: Model, file: File | undefined, notes: string[]): void {
  if (!file) return;
  if (takesSound(model, { output: "video" })) {
    draft.set({ output: "video", sound: givenFile(file, file.name) });
  } else notes.push(t("noSounds"));
}

function takeImages(model: Model, images: File[], notes: string[]): void {
  if (images.length === 0) return;
  const { output } = draft.state;
  const other = output === "image" ? "video" : "image";
  const use = maxImages(model, output) > 0 ? output : maxImages(model, other) > 0 ? other : null;
  if (use === null) {
    notes.push(t("noImages"));
    return;
  }
  draft.set({ output: use, clip: null });
  const most = maxImages(model, use);
  // A single image takes the place of the one before.
  const count = images.length + (most > 1 ? draft.state.images.length : 0);
  if (count > most) notes.push(t("tooManyImages", { most }));
  addImages(images.map((file) => givenFile(file, file.name)), most);
}

/** Files by what they are, and what is wrong with the rest. */
async function sorted(
  files: File[],
): Promise<Record<"images" | "clips" | "sounds" | "loras", File[]> & { notes: string[] }> {
  const found = {
    images: [] as File[],
    clips: [] as File[],
    sounds: [] as File[],
    loras: [] as File[],
    notes: [] as string[],
  };
  for (const file of files) {
    try {
      found[`${await kindOf(file)}s`].push(file);
    } catch (error) {
      found.notes.push(error instanceof Error ? error.message : String(error));
    }
  }
  return found;
}

export function PickFiles({ model, state }: { model: Model; state: Draft }): VNode | null {
  const takesImages = maxImages(model, state.output) > 0;
  const takesClips = state.output === "video" && takesVideo(model);
  if (!takesImages && !takesClips) return null;
  const label = t(takesClips && takesImages ? "addInput" : takesClips ? "addVideo" : "addImage");
  return h(FileButton, {
    label,
    name: "image",
    multiple: maxImages(model, state.output) > 1,
    accept: [...takesImages ? ["image/*"] : [], ...takesClips ? ["video/*"] : []].join(","),
    onPick: (files) => void takeFiles(model, files),
  });
}

export function PickControl({ model, state }: { model: Model; state: Draft }): VNode | null {
  if (!takesControl(model, state)) return null;
  return h(FileButton, {
    label: t("addControl"),
    name: "steer",
    multiple: false,
    accept: "image/*",
    onPick: async (files) => {
      const { images: [image], notes } = await sorted([...files ?? []].slice(0, 1));
      if (image) addControl(model, image);
      else notes.push(t("controlIsImage"));
      tell(image ? "" : notes[0]!);
    },
  });
}

export function PickReferences({ model, state }: { model: Model; state: Draft }): VNode | null {
  const { max_references: most } = model.limits;
  if (most === 0) return null;
  return h(FileButton, {
    label: t("addReference"),
    name: "eye",
    multiple: most > 1,
    accept: "image/*",
    onPick: async (files) => {
      const { images, notes } = await sorted([...files ?? []]);
      const given = images.map((image) => ({ ...givenFile(image, image.name), settings: {} }));
      draft.set({ references: [...state.references, ...given].slice(-most) });
      tell(images.length > 0 ? notes.join(" ") : t("referenceIsImage"));
    },
  });
}

/** A sound, or a video whose sound is meant. */
export function PickSound({ model, state }: { model: Model; state: Draft }): VNode | null {
  if (!takesSound(model, state)) return null;
  return h(FileButton, {
    label: t("addSound"),
    name: "sound",
    multiple: false,
    accept: "audio/*,video/*",
    onPick: (files) => {
      const [file] = files ?? [];
      if (file) draft.set({ sound: givenFile(file, file.name) });
    },
  });
}

/** The last picture wins where only one may be. */
function addControl({ max_controls: most }: Model, file: File): void {
  const control = { ...givenFile(file, file.name), settings: {} };
  draft.set({ controls: [...draft.state.controls.slice(0, most - 1), control] });
}

interface FileButtonProps {
  label: string;
  name: Parameters<typeof icon>[0];
  multiple: boolean;
  accept: string;
  onPick(files: FileList | null): void;
}

export function FileButton({ label, name, multiple, accept, onPick }: FileButtonProps): VNode {
  const field = useRef<HTMLInputElement>(null);
  return h(
    "div",
    {},
    iconButton({ label, onClick: () => field.current?.click() }, icon(name)),
    h("input", {
      ref: field,
      type: "file",
      class: "unseen",
      tabIndex: -1,
      "aria-label": label,
      multiple,
      accept,
      onChange: (event) => {
        onPick(event.currentTarget.files);
        event.currentTarget.value = "";
      },
    }),
  );
}

export function RecipeOffer(): VNode | null {
  const found = useStore(offer, ({ found }) => found);
  if (!found) return null;
  return h(
    "div",
    { class: "offer", role: "status" },
    h("span", {}, t("saysHow", { name: found.name })),
    h("button", { class: "action", onClick: takeOffer }, t("useSettings")),
    iconButton(
      { label: t("ignoreSettings"), onClick: () => offer.set({ found: null }) },
      icon("close"),
    ),
  );
}

export function GivenInputs({ model, state }: { model: Model; state: Draft }): VNode | null {
  const { images, clip, output } = state;
  const controls = controlsOf(model, state).filter(({ isPainted }) => !isPainted);
  const references = givenReferences(model, state);
  const sound = takesSound(model, state) ? state.sound : null;
  if (images.length + controls.length + references.length === 0 && !clip && !sound) return null;
  const frames = keyFrames(model, state);
  const canMask = output === "image" && model.inpainting !== null;
  const canGrow = model.settings.some(({ name }) => name === "outpaint");
  const isGrown = outpaintOf(state) !== undefined;
  return h(
    "ul",
    { class: "inputs", "aria-label": t("inputs") },
    ...images.map((file, index) =>
      h(Given, {
        key: file.key,
        file,
        caption: captionOf(output, images.length, index, frames?.[index]),
        onMove: index > 0 ? () => swap(images, index) : undefined,
        onRemove: () => setImages(images.filter(({ key }) => key !== file.key)),
        use: canMask && index === 0
          ? h(
            "div",
            {},
            editButton("mask", state.mask !== null, t(state.mask ? "mask" : "paintMask")),
            canGrow ? editButton("outpaint", isGrown, t(isGrown ? "extended" : "extend")) : null,
          )
          : null,
      })
    ),
    ...controls.map((control, index) =>
      h(Given, {
        key: control.key,
        file: control,
        caption: controls.length > 1 ? t("controlAt", { place: index + 1 }) : t("control"),
        onRemove: () =>
          draft.set({ controls: state.controls.filter(({ key }) => key !== control.key) }),
      })
    ),
    ...references.map((file, index) =>
      h(Given, {
        key: file.key,
        file,
        caption: references.length > 1 ? t("referenceAt", { place: index + 1 }) : t("reference"),
        onRemove: () => draft.set({ references: references.filter(({ key }) => key !== file.key) }),
      })
    ),
    clip
      ? h(Given, {
        key: clip.key,
        file: clip,
        onRemove: () => draft.set({ clip: null }),
        use: does(model, "V2V") && does(model, "F2V")
          ? h(Segments<"change" | "continue">, {
            name: t("useOfVideo"),
            value: state.continues ? "continue" : "change",
            options: [["change", t("change")], ["continue", t("continue")]],
            onChange: (way) => draft.set({ continues: way === "continue" }),
          })
          : null,
      })
      : null,
    sound
      ? h(
        "li",
        { class: "heard", key: sound.key },
        h("audio", { src: sound.url, controls: true, "aria-label": sound.name }),
        iconButton({
          label: t("remove", { name: sound.name }),
          onClick: () => draft.set({ sound: null }),
        }, icon("close")),
      )
      : null,
  );
}

/** Opens an editor of the first image, in the middle of the page. */
function editButton(editing: "mask" | "outpaint", isPressed: boolean, text: string): VNode {
  return h("button", {
    class: `mask-button edit-${editing}`,
    "aria-pressed": isPressed,
    onClick: () => view.set({ editing }),
  }, [icon(editing === "mask" ? "brush" : "screen"), text]);
}

interface GivenProps {
  file: GivenFile;
  /** Clips have none. */
  caption?: string;
  onMove?: (() => void) | undefined;
  onRemove: () => void;
  /** Chooses what the file is used for. */
  use?: VNode | null;
}

function Given({ file: { name, url }, caption, onMove, onRemove, use }: GivenProps): VNode {
  const isClip = caption === undefined;
  return h(
    "li",
    isClip ? { class: "clip" } : {},
    h(
      "figure",
      {},
      isClip
        ? h("video", { src: url, muted: true, "aria-label": name })
        : h("img", { src: url, alt: name }),
      h(
        "div",
        { class: "input-actions" },
        onMove
          ? iconButton({ label: t("moveBefore", { name }), onClick: onMove }, icon("left"))
          : null,
        iconButton({
          label: t("remove", { name }),
          onClick: () => {
            onRemove();
            document.querySelector<HTMLElement>("#prompt")?.focus();
          },
        }, icon("close")),
      ),
      isClip ? null : h("figcaption", {}, caption),
    ),
    use,
  );
}

function captionOf(
  output: Draft["output"],
  count: number,
  index: number,
  frame: number | undefined,
): string {
  if (output === "video" && frame !== undefined) {
    return frame === 0 ? t("firstFrame") : t("frameAt", { frame });
  }
  if (output === "video") return t(index === 0 ? "firstFrame" : "lastFrame");
  return count > 1 ? t("imageAt", { place: index + 1 }) : t("image");
}

function swap(images: GivenFile[], index: number): void {
  setImages(images.with(index, images[index - 1]!).with(index - 1, images[index]!));
}
