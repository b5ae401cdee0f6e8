/** The page. */

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { followAddress } from "./address.ts";
import { host } from "./api.ts";
import { Compare } from "./compare.ts";
import { Composer } from "./composer.ts";
import { h, type VNode } from "./elements.ts";
import { Gallery } from "./gallery.ts";
import { UndoRemoval } from "./gallery_bar.ts";
import { takeFiles } from "./inputs.ts";
import { isPending, jobs, live, refreshSoon, watch } from "./jobs.ts";
import { ModelsButton } from "./models_panel.ts";
import { chooseModel, currentModel, type Session, session, useKey } from "./session.ts";
import { SettingsPanel } from "./settings_panel.ts";
import { Stage } from "./stage.ts";
import { useStore } from "./store.ts";
import { view } from "./view.ts";
import { Viewer } from "./viewer.ts";

function App(): VNode {
  const state = useStore(session, (state) => state);
  const hasSettings = useStore(view, ({ hasSettings }) => hasSettings);
  const [isOver, setOver] = useState(false);
  const model = currentModel(state);
  const { Corner } = host.current;
  useTitle();
  useEffect(() => {
    const onKeyDown = ({ key }: KeyboardEvent) => {
      if (key === "Escape") view.set({ hasSettings: false });
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
  useEffect(() => {
    if (hasSettings) document.querySelector<HTMLElement>(".drawer-top button")?.focus();
  }, [hasSettings]);
  return h(
    "div",
    {
      class: `page${hasSettings ? " with-settings" : ""}${isOver ? " drop" : ""}`,
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
    // The prompt is the first that Tab reaches; the style puts everything in its place.
    h("main", {}, model ? h(Composer, { model }) : h(Opening, { state }), h(Stage, { model })),
    model ? h(SettingsPanel, { model }) : h("div", { class: "settings" }),
    hasSettings
      ? h("div", { class: "veil", onClick: () => view.set({ hasSettings: false }) })
      : null,
    h(Gallery, {}),
    h(
      "header",
      { class: "top" },
      h("h1", {}, "denoise"),
      h(ModelName, { state }),
      h(ModelsButton, {}),
      h(LinkState, { state }),
      Corner ? h(Corner, {}) : h("a", { class: "docs", href: "docs" }, "API"),
    ),
    h(Viewer, {}),
    h(Compare, {}),
    h(UndoRemoval, {}),
    state.link === "locked" ? h(KeyDialog, { isWrong: state.isKeyWrong }) : null,
  );
}

function ModelName({ state }: { state: Session }): VNode {
  const { models, modelId } = state;
  if (models.length < 2) return h("span", { class: "model" }, modelId);
  return h(
    "label",
    { class: "model" },
    h("span", { class: "unseen" }, "Model"),
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
  if (link === "lost") return "The server does not answer; trying again.";
  if (link === "loading") {
    return `The model ${isDownload ? "is downloaded" : "loads"}: ${Math.floor(loaded * 100)} %`;
  }
  return link === "failed" ? problem : "";
}

/** Shown until the model is known. */
function Opening({ state }: { state: Session }): VNode {
  return h(
    "div",
    { class: "opening", role: "status" },
    h("p", {}, linkText(state) || "Connecting."),
    state.link === "loading"
      ? h("progress", { max: 1, value: state.loaded, "aria-label": "Loading" })
      : null,
  );
}

/** The tab tells how far it is. */
function useTitle(): void {
  const percent = useStore(live, ({ id, progress }) => id ? progress : null);
  const pending = useStore(jobs, ({ list }) => list.filter(isPending).length);
  useEffect(() => {
    document.title = percent === null || pending === 0 ? "denoise" : `${percent} % · denoise`;
  }, [percent, pending]);
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
      h("h2", { id: "key-title" }, "This server needs a key"),
      h(
        "p",
        { class: "muted", role: "alert" },
        isWrong
          ? "The server does not accept this key."
          : "Ask the operator of the server for a key. This browser stores it.",
      ),
      h("label", { class: "unseen", for: "key" }, "Key"),
      h("input", { id: "key", ref: field, type: "password", autocomplete: "current-password" }),
      h("button", { type: "submit", class: "generate" }, "Use it"),
    ),
  );
}

followAddress();
render(h(App, {}), document.body);
void watch();
