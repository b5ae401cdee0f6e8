/** The page. */

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { followAddress } from "./address.ts";
import { host } from "./api.ts";
import { Composer } from "./composer.ts";
import { h, type VNode } from "./elements.ts";
import { Gallery } from "./gallery.ts";
import { UndoRemoval } from "./gallery_bar.ts";
import { takeFiles } from "./inputs.ts";
import { isPending, jobs, live, refreshSoon, undoRemoval, watch } from "./jobs.ts";
import { keepInputs } from "./kept_inputs.ts";
import { lazy } from "./lazy.ts";
import { ModelsButton } from "./models_button.ts";
import { chooseModel, currentModel, type Session, session, useKey } from "./session.ts";
import { SettingsPanel } from "./settings_panel.ts";
import { Stage } from "./stage.ts";
import { memory, useStore } from "./store.ts";
import { language, LANGUAGES, percent, speak, t } from "./texts.ts";
import { comparison, view } from "./view.ts";

const Viewer = lazy(async () => (await import("./viewer.ts")).Viewer);
const SheetPanel = lazy(async () => (await import("./sheet.ts")).SheetPanel);
const Compare = lazy(async () => (await import("./compare.ts")).Compare);

function App(): VNode {
  const state = useStore(session, (state) => state);
  const { hasSettings, hasSheet, isEnlarged } = useStore(view, (state) => state);
  const now = useStore(comparison, ({ now }) => now);
  const [isOver, setOver] = useState(false);
  const model = currentModel(state);
  const { Corner } = host.current;
  useTitle();
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key === "Escape") view.set({ hasSettings: false });
      const isUndo = event.key === "z" && (event.ctrlKey || event.metaKey);
      const isTyping = event.target instanceof HTMLElement &&
        event.target.matches("textarea, input:not([type=range], [type=checkbox], [type=radio])");
      if (!isUndo || isTyping || event.defaultPrevented || !jobs.state.removed) return;
      event.preventDefault();
      undoRemoval();
    };
    const onPaste = (event: ClipboardEvent) => {
      const files = event.clipboardData?.files;
      if (!model || !files?.length) return;
      event.preventDefault();
      void takeFiles(model, files);
    };
    document.addEventListener("keydown", onKeyDown);
    document.addEventListener("paste", onPaste);
    return () => {
      document.removeEventListener("keydown", onKeyDown);
      document.removeEventListener("paste", onPaste);
    };
  }, [model]);
  const wasOpen = useRef(false);
  useEffect(() => {
    if (hasSettings !== wasOpen.current) {
      const to = document.querySelector(hasSettings ? ".drawer-top button" : ".open-settings");
      (to as HTMLElement | null)?.focus();
    }
    wasOpen.current = hasSettings;
  }, [hasSettings]);
  return h(
    "div",
    {
      class: `page${hasSettings ? " with-settings" : ""}${isOver ? " drop" : ""}`,
      ...{ "data-drop": t("dropHere") },
      onDragOver: (event) => {
        if (!model || !event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: (event) => {
        if (event.relatedTarget === null) setOver(false);
      },
      onDrop: (event) => {
        event.preventDefault();
        setOver(false);
        if (model) void takeFiles(model, event.dataTransfer?.files);
      },
    },
    // The order of Tab: prompt, settings, results, and the rest; the style puts everything in its place.
    h(
      "main",
      {},
      model ? h(Composer, { model }) : h(Opening, { state }),
      h(SkipButtons, {}),
      model ? h(SettingsPanel, { model }) : h("div", { class: "settings" }),
      hasSettings
        ? h("div", { class: "veil", onClick: () => view.set({ hasSettings: false }) })
        : null,
      h(Stage, { model }),
    ),
    h(Gallery, {}),
    h(
      "header",
      { class: "top", tabIndex: -1 },
      h("h1", {}, "denoise"),
      h(ModelName, { state }),
      h(ModelsButton, {}),
      h(LinkState, { state }),
      h(ChooseLanguage, {}),
      Corner ? h(Corner, {}) : h("a", { class: "docs", href: "docs" }, "API"),
    ),
    isEnlarged ? h(Viewer, {}) : null,
    now ? h(Compare, { now }) : null,
    hasSheet && model ? h(SheetPanel, { model }) : null,
    h(UndoRemoval, {}),
    state.link === "locked" ? h(KeyDialog, { isWrong: state.isKeyWrong }) : null,
  );
}

/** Draws the page, from the beginning where the language is another. */
function draw(): void {
  render(h(App, { key: language.state.tag }), document.body);
}

/** Shown when Tab reaches them: the way past the settings, and past the results. */
function SkipButtons(): VNode {
  const skip = (text: string, to: string) =>
    h("button", {
      class: "skip",
      onClick: () => document.querySelector<HTMLElement>(to)?.focus(),
    }, text);
  return h(
    "div",
    {},
    skip(t("skipToResults"), ".stage"),
    skip(t("skipToTop"), ".top"),
  );
}

function ChooseLanguage(): VNode {
  return h(
    "select",
    {
      class: "language",
      "aria-label": t("language"),
      value: language.state.tag,
      onChange: ({ currentTarget: { value } }) => {
        memory.write("language", value);
        void speak(value);
      },
    },
    ...Object.entries(LANGUAGES).map(([tag, [name]]) =>
      h("option", { key: tag, value: tag, lang: tag }, name)
    ),
  );
}

function ModelName({ state }: { state: Session }): VNode {
  const { models, modelId } = state;
  if (models.length < 2) return h("span", { class: "model" }, modelId);
  return h(
    "label",
    { class: "model" },
    h("span", { class: "unseen" }, t("model")),
    h(
      "select",
      { value: modelId, onChange: (event) => chooseModel(event.currentTarget.value) },
      ...models.map(({ id }) => h("option", { key: id, value: id }, id)),
    ),
  );
}

function LinkState({ state }: { state: Session }): VNode {
  const text = state.models.length === 0 ? "" : linkText(state);
  return h("span", { class: "link", role: "status" }, text);
}

function linkText({ link, loaded, isDownload, problem }: Session): string {
  if (link === "lost") return t("serverLost");
  if (link === "loading") {
    return t(isDownload ? "modelDownloads" : "modelLoads", { share: percent(loaded) });
  }
  return link === "failed" ? problem : "";
}

/** Shown until the model is known. */
function Opening({ state }: { state: Session }): VNode {
  return h(
    "div",
    { class: "opening", role: "status" },
    h("p", {}, linkText(state) || t("connecting")),
    state.link === "loading"
      ? h("progress", { max: 1, value: state.loaded, "aria-label": t("loading") })
      : null,
  );
}

/** The tab tells how far it is. */
function useTitle(): void {
  const done = useStore(live, ({ id, progress }) => id ? progress : null);
  const pending = useStore(jobs, ({ list }) => list.filter(isPending).length);
  useEffect(() => {
    document.title = done === null || pending === 0
      ? "denoise"
      : `${percent(done / 100)} · denoise`;
  }, [done, pending]);
}

function KeyDialog({ isWrong }: { isWrong: boolean }): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return h(
    "dialog",
    {
      ref: box,
      class: "key-dialog",
      "aria-labelledby": "key-title",
      onCancel: (e) => e.preventDefault(),
    },
    h(
      "form",
      {
        onSubmit: (event) => {
          event.preventDefault();
          void useKey(field.current?.value ?? "").then(refreshSoon);
        },
      },
      h("h2", { id: "key-title" }, t("needsKey")),
      h(
        "p",
        { class: "muted", role: "alert" },
        t(isWrong ? "wrongKey" : "askForKey"),
      ),
      h("label", { class: "unseen", for: "key" }, t("key")),
      h("input", { id: "key", ref: field, type: "password", autocomplete: "current-password" }),
      h("button", { type: "submit", class: "generate" }, t("useKey")),
    ),
  );
}

await Promise.all([speak(), keepInputs()]);
language.follow(draw);
followAddress();
draw();
void watch();
