/** Which frames of a video its images are for, and how much they count there. */

import { NumberSlider } from "./controls.ts";
import { choose, type Draft } from "./draft.ts";
import { h, type VNode } from "./elements.ts";
import { type Model, ownFrames } from "./model.ts";
import { settingHint, settingName, t } from "./texts.ts";

/** Whether the model takes images for any frame. */
function takesKeyFrames(model: Model, { output, clip }: Draft): boolean {
  return output === "video" && !clip && model.settings.some(({ name }) => name === "image_frames");
}

function framesOf(model: Model, { numFrames }: Draft): number {
  return numFrames ?? ownFrames(model);
}

/** Frames by the places of the images: those that were chosen, else such as the server takes. Undefined where it has no choice. */
export function keyFrames(model: Model, state: Draft): number[] | undefined {
  if (!takesKeyFrames(model, state)) return undefined;
  const chosen = state.settings["image_frames"] as number[] | undefined;
  if (chosen?.length === state.images.length) return chosen;
  const { frame_multiple: step } = model.limits;
  const last = (framesOf(model, state) - 1) / step;
  return state.images.map((_, i) => {
    const latent = i === 0 ? 0 : Math.round(i * last / (state.images.length - 1));
    return Math.max(0, (latent - 1) * step + 1);
  });
}

function strengthsOf({ settings, images }: Draft): number[] {
  const chosen = settings["image_strengths"] as number[] | undefined;
  return images.map((_, i) => chosen?.[chosen.length === 1 ? 0 : i] ?? 1);
}

/** A list: image, frame, strength. */
export function KeyFrames({ model, state }: { model: Model; state: Draft }): VNode | null {
  const frames = keyFrames(model, state);
  if (!frames || frames.length === 0) return null;
  const strengths = strengthsOf(state);
  const isUsual = (list: readonly number[]) => list.every((strength) => strength === 1);
  return h(
    "fieldset",
    { class: "group key-frames" },
    h("legend", {}, t("keyFrames")),
    ...state.images.map(({ key, url, name }, i) =>
      h(
        "div",
        { class: "key-frame", key },
        h("img", { class: "mask-thumb", src: url, alt: name }),
        h(
          "div",
          {},
          h(NumberSlider, {
            id: `image_frames_${i}`,
            name: settingName("image_frames"),
            hint: i === 0 ? settingHint("image_frames") : undefined,
            value: frames[i],
            own: null,
            least: 0,
            most: framesOf(model, state) - 1,
            step: 1,
            onChange: (frame: number | undefined) =>
              choose("image_frames", frame === undefined ? undefined : frames.with(i, frame)),
          }),
          h(NumberSlider, {
            id: `image_strengths_${i}`,
            name: settingName("image_strengths"),
            value: strengths[i],
            own: 1,
            least: 0,
            most: 1,
            step: 0.05,
            onChange: (strength: number | undefined) => {
              const all = strengths.with(i, strength ?? 1);
              choose("image_strengths", isUsual(all) ? undefined : all);
            },
          }),
        ),
      )
    ),
  );
}
