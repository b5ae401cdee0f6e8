/** A clip: played, looped, and gone through frame by frame. */

import { useEffect, useRef, useState } from "preact/hooks";
import { iconButton } from "./controls.ts";
import { h, icon, type VNode } from "./elements.ts";
import { type Job, recipeOf, type Result } from "./jobs.ts";
import { hasSound } from "./media.ts";
import { memory } from "./store.ts";
import { t } from "./texts.ts";

/** Frames per second where a recipe cannot be read. */
const USUAL_RATE = 16;

export function Player(
  { url, job, result, shape }: {
    url: string;
    job: Job;
    result: Result;
    shape: Record<string, string | number>;
  },
): VNode {
  const element = useRef<HTMLVideoElement>(null);
  const [rate, setRate] = useState(USUAL_RATE);
  const [loops, setLoops] = useState(memory.read("loops", true));
  const [isPlaying, setPlaying] = useState(false);
  const [time, setTime] = useState({ now: 0, end: 0 });
  const [isHeard, setHeard] = useState(false);
  useEffect(() => {
    let isCurrent = true;
    setHeard(false);
    void hasSound(result).then((found) => isCurrent && setHeard(found));
    return () => void (isCurrent = false);
  }, [result.url]);
  useEffect(() => {
    recipeOf(job.id).then(({ fps }) => setRate(Number(fps) || USUAL_RATE), () => {});
  }, [job.id]);
  const frame = Math.min(Math.round(time.now * rate), Math.round(time.end * rate) - 1);
  const seek = (to: number) => {
    const clip = element.current;
    if (!clip) return;
    clip.pause();
    const last = Math.max(0, Math.round(clip.duration * rate) - 1);
    // The middle of a frame is in it, however its time is rounded.
    clip.currentTime = (Math.min(last, Math.max(0, to)) + 0.5) / rate;
  };
  const toggle = () => void (isPlaying ? element.current?.pause() : element.current?.play());
  return h(
    "div",
    { class: "player" },
    h(
      "div",
      { class: "frame", style: shape },
      h("video", {
        ref: element,
        src: url,
        class: "result",
        loop: loops,
        autoplay: true,
        muted: !memory.read("sound", false),
        playsInline: true,
        "aria-label": job.prompt ?? t("aVideo"),
        onClick: toggle,
        onPlay: () => setPlaying(true),
        onPause: () => setPlaying(false),
        onTimeUpdate: ({ currentTarget: { currentTime: now, duration: end } }) =>
          setTime({ now, end }),
        onLoadedMetadata: ({ currentTarget: { duration: end } }) => setTime({ now: 0, end }),
      }),
    ),
    h(
      "div",
      { class: "player-bar" },
      iconButton({ label: t("frameBefore"), onClick: () => seek(frame - 1) }, icon("left")),
      iconButton(
        { label: t(isPlaying ? "pause" : "play"), onClick: toggle, class: "play" },
        h("span", { "aria-hidden": "true" }, isPlaying ? "❚❚" : "▶"),
      ),
      iconButton({ label: t("frameAfter"), onClick: () => seek(frame + 1) }, icon("right")),
      h("input", {
        type: "range",
        "aria-label": t("frame"),
        min: 0,
        max: Math.max(0, Math.round(time.end * rate) - 1) || 0,
        step: 1,
        value: Math.max(0, frame) || 0,
        style: { "--filled": `${100 * time.now / (time.end || 1)}%` },
        onInput: (event) => seek(Number(event.currentTarget.value)),
      }),
      h(
        "span",
        { class: "frame-number" },
        `${(frame || 0) + 1} / ${Math.round(time.end * rate) || 1}`,
      ),
      iconButton({
        label: t("loop"),
        pressed: loops,
        onClick: () => {
          memory.write("loops", !loops);
          setLoops(!loops);
        },
      }, icon("loop")),
      isHeard
        ? iconButton({
          label: t("sound"),
          pressed: element.current ? !element.current.muted : memory.read("sound", false),
          onClick: () => {
            const clip = element.current!;
            clip.muted = !clip.muted;
            memory.write("sound", !clip.muted);
            setTime({ ...time });
          },
        }, h("span", { "aria-hidden": "true" }, "♪"))
        : null,
    ),
  );
}
