/**
 * Images and clips that the request brings: chosen, dropped or pasted, in an order.
 *
 * @module
 */

import { useRef } from "preact/hooks";
import { iconButton, Segments } from "./controls.ts";
import { addImages, type Draft, draft, type GivenFile, givenFile, setImages } from "./draft.ts";
import {
  button,
  div,
  figcaption,
  figure,
  img,
  input,
  li,
  ul,
  video,
  type VNode,
} from "./elements.ts";
import { icon } from "./icons.ts";
import { does, maxImages, type Model, takesControl, takesVideo } from "./model.ts";
import { h } from "preact";
import { tell, view } from "./view.ts";

/**
 * Takes in what was dropped, pasted or chosen.
 *
 * @returns whether there was any that the model can use
 */
export function takeFiles(model: Model, list: FileList | null | undefined): boolean {
  const files = [...list ?? []];
  const clip = files.find(({ type }) => type.startsWith("video/"));
  const images = files.filter(({ type }) => type.startsWith("image/"));
  if (clip && takesVideo(model)) {
    draft.set({ output: "video", clip: givenFile(clip, clip.name), images: [], mask: null });
    return true;
  }
  if (images.length === 0) return false;
  const { output } = draft.state;
  const other = output === "image" ? "video" : "image";
  const use = maxImages(model, output) > 0 ? output : maxImages(model, other) > 0 ? other : null;
  if (use === null) {
    tell("This model takes no images.");
    return false;
  }
  draft.set({ output: use, clip: null });
  addImages(images.map((file) => givenFile(file, file.name)), maxImages(model, use));
  tell("");
  return true;
}

/** The button that chooses files; nothing where the model takes none. */
export function PickFiles({ model, state }: { model: Model; state: Draft }): VNode | null {
  const takesImages = maxImages(model, state.output) > 0;
  const takesClips = state.output === "video" && takesVideo(model);
  if (!takesImages && !takesClips) return null;
  const label = takesClips && takesImages
    ? "Add an image or a clip"
    : takesClips
    ? "Add a clip"
    : "Add an image";
  return h(FileButton, {
    ...{ label, name: "image" },
    multiple: maxImages(model, state.output) > 1,
    accept: [...takesImages ? ["image/*"] : [], ...takesClips ? ["video/*"] : []].join(","),
    onPick: (files) => takeFiles(model, files),
  });
}

/** The button that chooses a picture which steers the image; nothing where no such one does. */
export function PickControl({ model, state }: { model: Model; state: Draft }): VNode | null {
  if (!takesControl(model, state)) return null;
  return h(FileButton, {
    ...{ label: "Add a control picture", name: "steer", multiple: false, accept: "image/*" },
    onPick: (files) => {
      const [file] = files ?? [];
      if (file) draft.set({ control: givenFile(file, file.name) });
    },
  });
}

/** How a {@linkcode FileButton} looks, and what it chooses. */
interface FileButtonProps {
  label: string;
  /** Name of the icon. */
  name: Parameters<typeof icon>[0];
  multiple: boolean;
  /** Types of files. */
  accept: string;
  onPick(files: FileList | null): void;
}

function FileButton({ label, name, multiple, accept, onPick }: FileButtonProps): VNode {
  const field = useRef<HTMLInputElement>(null);
  return div(
    {},
    iconButton({ label, onClick: () => field.current?.click() }, icon(name)),
    input({
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

/** What was given, with what can be done about it. */
export function GivenInputs({ model, state }: { model: Model; state: Draft }): VNode | null {
  const { images, clip, output } = state;
  const control = takesControl(model, state) ? state.control : null;
  if (images.length === 0 && !clip && !control) return null;
  const canMask = output === "image" && model.inpainting !== null;
  return ul(
    { class: "inputs", "aria-label": "Given" },
    ...images.map((file, index) =>
      li(
        { key: file.key },
        figure(
          {},
          img({ src: file.url, alt: file.name }),
          figcaption({}, captionOf(output, images.length, index)),
        ),
        div(
          { class: "input-actions" },
          index > 0
            ? iconButton(
              { label: `Move ${file.name} before`, onClick: () => swap(images, index) },
              icon("left"),
            )
            : null,
          iconButton({
            label: `Take ${file.name} out`,
            onClick: () => setImages(images.filter(({ key }) => key !== file.key)),
          }, icon("close")),
        ),
        canMask && index === 0
          ? button({
            type: "button",
            class: "mask-button",
            "aria-pressed": state.mask !== null,
            onClick: () => view.set({ isMasking: true }),
          }, [icon("brush"), state.mask ? "Mask" : "Paint a mask"])
          : null,
      )
    ),
    control
      ? li(
        { key: control.key },
        figure({}, img({ src: control.url, alt: control.name }), figcaption({}, "Control")),
        div(
          { class: "input-actions" },
          iconButton(
            { label: `Take ${control.name} out`, onClick: () => draft.set({ control: null }) },
            icon("close"),
          ),
        ),
      )
      : null,
    clip
      ? li(
        { key: clip.key, class: "clip" },
        figure({}, video({ src: clip.url, muted: true, "aria-label": clip.name })),
        div(
          { class: "input-actions" },
          iconButton(
            { label: `Take ${clip.name} out`, onClick: () => draft.set({ clip: null }) },
            icon("close"),
          ),
        ),
        does(model, "V2V") && does(model, "F2V")
          ? h(Segments<"change" | "continue">, {
            name: "What becomes of the clip",
            value: state.continues ? "continue" : "change",
            options: [["change", "Change it"], ["continue", "Go on"]],
            onChange: (way) => draft.set({ continues: way === "continue" }),
          })
          : null,
      )
      : null,
  );
}

function captionOf(output: Draft["output"], count: number, index: number): string {
  if (output === "video") return index === 0 ? "First frame" : "Last frame";
  return count > 1 ? `Image ${index + 1}` : "Image";
}

function swap(images: GivenFile[], index: number): void {
  setImages(images.with(index, images[index - 1]!).with(index - 1, images[index]!));
}
