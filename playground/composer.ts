/** The prompt, what it brings, and the button that draws. */

import { useEffect, useRef, useState } from "preact/hooks";
import { iconButton, Segments } from "./controls.ts";
import { draft } from "./draft.ts";
import { h, icon, type VNode } from "./elements.ts";
import {
  GivenInputs,
  PickControl,
  PickFiles,
  PickReferences,
  PickSound,
  RecipeOffer,
} from "./inputs.ts";
import { jobs } from "./jobs.ts";
import { type Model, type Output, outputsOf } from "./model.ts";
import { ToyNote } from "./models_button.ts";
import { notePrompt, promptAt } from "./prompt_history.ts";
import { draftTask, hasOpenBrace, send } from "./request.ts";
import { draftProblem } from "./settings_panel.ts";
import { session } from "./session.ts";
import { useStore } from "./store.ts";
import { t } from "./texts.ts";
import { attempt, show, tell, view } from "./view.ts";

const IS_APPLE = /Mac|iPhone|iPad/.test(navigator.platform);

export function Composer({ model }: { model: Model }): VNode {
  const state = useStore(draft, (state) => state);
  const link = useStore(session, ({ link }) => link);
  const waiting = useStore(jobs, ({ waiting }) => waiting);
  const notice = useStore(view, ({ notice }) => notice);
  const [isSending, setSending] = useState(false);
  const prompt = useRef<HTMLTextAreaElement>(null);
  const outputs = outputsOf(model);
  const task = draftTask(model, state);
  const output = outputs.includes(state.output) ? state.output : outputs[0] ?? "image";
  useEffect(() => {
    if (output !== state.output) draft.set({ output });
  }, [output, state.output]);
  useEffect(() => {
    // As high as its text, up to a limit that the style has.
    const field = prompt.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }, [state.prompt]);

  useEffect(() => {
    // On touch screens the keyboard would cover the page.
    if (!matchMedia("(pointer: coarse)").matches) prompt.current?.focus();
  }, []);

  const generate = async () => {
    const problem = draftProblem(model, draft.state) ??
      (task === undefined ? missingInput(output) : undefined);
    if (problem) {
      tell(problem);
      prompt.current?.focus();
      return;
    }
    setSending(true);
    await attempt(async () => {
      notePrompt(draft.state.prompt.trim());
      show((await send(model)).id);
      draft.set({ usesSeed: false });
    });
    setSending(false);
  };
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      // A number that is being typed counts.
      const field = document.activeElement;
      if (field instanceof HTMLInputElement) {
        field.blur();
        field.focus();
      }
      void generate();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  });

  const isReady = link === "ready";
  return h(
    "form",
    {
      class: "composer",
      "aria-label": t("prompt"),
      onSubmit: (event) => {
        event.preventDefault();
        void generate();
      },
    },
    h(GivenInputs, { model, state }),
    h(RecipeOffer, {}),
    h("label", { class: "unseen", for: "prompt" }, t("whatToSee")),
    h("textarea", {
      id: "prompt",
      ref: prompt,
      rows: 2,
      value: state.prompt,
      placeholder: t(
        state.images.length > 0 && output === "image" ? "whatToChange" : "whatToSee",
      ),
      enterkeyhint: "enter",
      onInput: (event) => draft.set({ prompt: event.currentTarget.value }),
      onKeyDown: (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
        const found = promptAt(event);
        if (found === undefined) return;
        event.preventDefault();
        draft.set({ prompt: found });
      },
    }),
    hasOpenBrace(state.prompt)
      ? h("p", { class: "toy muted", role: "status" }, t("openBrace"))
      : null,
    model.native_sides ? h(ToyNote, {}) : null,
    h(
      "div",
      { class: "composer-row" },
      outputs.length > 1
        ? h(Segments<Output>, {
          name: t("result"),
          value: output,
          options: [["image", t("image")], ["video", t("video")]],
          onChange: (output) => draft.set({ output, images: [], clip: null, mask: null }),
        })
        : null,
      h(PickFiles, { model, state }),
      h(PickControl, { model, state }),
      h(PickReferences, { model, state }),
      h(PickSound, { model, state }),
      output === "image"
        ? iconButton(
          { label: t("sheet"), onClick: () => view.set({ hasSheet: true }) },
          icon("grid"),
        )
        : null,
      iconButton({
        label: t("settings"),
        class: "open-settings",
        pressed: view.state.hasSettings,
        onClick: () => view.set(({ hasSettings }) => ({ hasSettings: !hasSettings })),
      }, icon("settings")),
      h("span", { class: "notice", role: "alert" }, notice),
      waiting > 0
        ? h("span", { class: "muted queue" }, t("waitingCount", { count: waiting }))
        : null,
      h(
        "button",
        { type: "submit", class: "generate", disabled: !isReady || isSending },
        t("generate"),
        h("span", { class: "key", "aria-hidden": "true" }, `${IS_APPLE ? "⌘" : t("ctrl")} ↵`),
      ),
    ),
  );
}

function missingInput(output: Output): string {
  return t(output === "video" ? "needsInput" : "needsImage");
}
