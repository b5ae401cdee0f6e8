/**
 * The files of the playground, as texts.
 *
 * They are imported, so they are in a compiled program like every other module, and nothing is read at run time. Each is
 * said to be a text: else the types of a browser, which the modules use, would become those of the server.
 */

// @ts-types="./text.d.ts"
import baseStyle from "../../playground/base.css" with { type: "text" };
// @ts-types="./text.d.ts"
import layoutStyle from "../../playground/layout.css" with { type: "text" };
// @ts-types="./text.d.ts"
import stageStyle from "../../playground/stage.css" with { type: "text" };
// @ts-types="./text.d.ts"
import viewerStyle from "../../playground/viewer.css" with { type: "text" };
// @ts-types="./text.d.ts"
import controlsStyle from "../../playground/controls.css" with { type: "text" };
// @ts-types="./text.d.ts"
import panelsStyle from "../../playground/panels.css" with { type: "text" };
// @ts-types="./text.d.ts"
import modelsStyle from "../../playground/models.css" with { type: "text" };
// @ts-types="./text.d.ts"
import api from "../../playground/api.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import composer from "../../playground/composer.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import controls from "../../playground/controls.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import draft from "../../playground/draft.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import elements from "../../playground/elements.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import givenFiles from "../../playground/given_files.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import gallery from "../../playground/gallery.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import inputs from "../../playground/inputs.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import jobs from "../../playground/jobs.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import loras from "../../playground/loras.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import main from "../../playground/main.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import maskEditor from "../../playground/mask_editor.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import media from "../../playground/media.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import model from "../../playground/model.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import models from "../../playground/models.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import modelsPanel from "../../playground/models_panel.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import player from "../../playground/player.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import promptHistory from "../../playground/prompt_history.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import referenceSettings from "../../playground/reference_settings.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import request from "../../playground/request.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import resultBar from "../../playground/result_bar.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import seed from "../../playground/seed.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import session from "../../playground/session.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import settingsPanel from "../../playground/settings_panel.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import sizePicker from "../../playground/size_picker.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import steeringPanel from "../../playground/steering_panel.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import stage from "../../playground/stage.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import store from "../../playground/store.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import view from "../../playground/view.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import viewer from "../../playground/viewer.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import history from "../../playground/history.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import galleryBar from "../../playground/gallery_bar.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import address from "../../playground/address.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import compare from "../../playground/compare.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import snippets from "../../playground/snippets.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import english from "../../playground/english.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import german from "../../playground/german.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import chinese from "../../playground/chinese.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import japanese from "../../playground/japanese.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import texts from "../../playground/texts.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import keyFrames from "../../playground/key_frames.ts" with { type: "text" };
import keptInputs from "../../playground/kept_inputs.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import lazy from "../../playground/lazy.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import modelsButton from "../../playground/models_button.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import loraFiles from "../../playground/lora_files.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import outpaintEditor from "../../playground/outpaint_editor.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import presets from "../../playground/presets.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import sheet from "../../playground/sheet.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import sheets from "../../playground/sheets.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import sheetAxes from "../../playground/sheet_axes.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import sheetImage from "../../playground/sheet_image.ts" with { type: "text" };
// @ts-types="./text.d.ts"
import preact from "preact" with { type: "text" };
// @ts-types="./text.d.ts"
import preactHooks from "preact/hooks" with { type: "text" };

/** TypeScript modules by name; they import each other by `./<name>`. */
export const MODULES: Readonly<Record<string, string>> = {
  "api.ts": api,
  "composer.ts": composer,
  "controls.ts": controls,
  "draft.ts": draft,
  "elements.ts": elements,
  "given_files.ts": givenFiles,
  "gallery.ts": gallery,
  "inputs.ts": inputs,
  "jobs.ts": jobs,
  "loras.ts": loras,
  "main.ts": main,
  "mask_editor.ts": maskEditor,
  "media.ts": media,
  "model.ts": model,
  "models.ts": models,
  "models_panel.ts": modelsPanel,
  "player.ts": player,
  "prompt_history.ts": promptHistory,
  "reference_settings.ts": referenceSettings,
  "request.ts": request,
  "result_bar.ts": resultBar,
  "seed.ts": seed,
  "session.ts": session,
  "settings_panel.ts": settingsPanel,
  "size_picker.ts": sizePicker,
  "steering_panel.ts": steeringPanel,
  "stage.ts": stage,
  "store.ts": store,
  "view.ts": view,
  "viewer.ts": viewer,
  "snippets.ts": snippets,
  "compare.ts": compare,
  "address.ts": address,
  "gallery_bar.ts": galleryBar,
  "history.ts": history,
  "lora_files.ts": loraFiles,
  "outpaint_editor.ts": outpaintEditor,
  "presets.ts": presets,
  "sheet.ts": sheet,
  "sheets.ts": sheets,
  "sheet_axes.ts": sheetAxes,
  "sheet_image.ts": sheetImage,
  "models_button.ts": modelsButton,
  "key_frames.ts": keyFrames,
  "kept_inputs.ts": keptInputs,
  "lazy.ts": lazy,
  "english.ts": english,
  "german.ts": german,
  "chinese.ts": chinese,
  "japanese.ts": japanese,
  "texts.ts": texts,
};

/** JavaScript of packages, by the names that modules import. */
export const PACKAGES: Readonly<Record<string, string>> = {
  "preact": preact,
  "preact/hooks": preactHooks,
};

/** Style sheets, in their order. */
export const STYLES: Readonly<Record<string, string>> = {
  "base.css": baseStyle,
  "layout.css": layoutStyle,
  "stage.css": stageStyle,
  "viewer.css": viewerStyle,
  "controls.css": controlsStyle,
  "models.css": modelsStyle,
  "panels.css": panelsStyle,
};
