/** Which model the tab has: the bundled one, one of the hub, or files that the user picks. */
import { useEffect, useRef, useState } from "preact/hooks";
import { h, type VNode } from "../../playground/elements.ts";
import { refreshSoon } from "../../playground/jobs.ts";
import { connect, session } from "../../playground/session.ts";
import { memory, useStore } from "../../playground/store.ts";
import { isHubId, parseHubFile } from "../../hub/cache.ts";
import { BUNDLED_MODEL } from "../../models/lora/bundled.ts";
import {
  DEFAULT_HUB,
  DEFAULT_VRAM_BYTES,
  type Estimate,
  estimate,
  type ModelSource,
  planModel,
} from "../load.ts";
import type { ModelPlan } from "../../engine/reports.ts";
import { service } from "./tab.ts";
import { sized, t } from "../../playground/texts.ts";

const GIB = 2 ** 30;

/** What the last visit chose, for names alone: picked files are gone with their page. */
const chosen = () => memory.read<string>("source", BUNDLED_MODEL);
const vramGib = () => memory.read<number>("vram", DEFAULT_VRAM_BYTES / GIB);

const transformer = () => memory.read<string>("transformer", "");
const hub = () => memory.read<string>("hub", DEFAULT_HUB);

/** How a model is loaded. */
const optionsOf = (source: ModelSource) => ({
  maxVramBytes: vramGib() * GIB,
  hub: hub(),
  ...(isHubId(String(source)) && transformer() && { parts: { transformer: transformer() } }),
});

export function loadChosen(): Promise<void> {
  return load(chosen());
}

async function load(source: ModelSource): Promise<void> {
  const loading = service.load(source, optionsOf(source));
  session.set({ link: "connecting", models: [], modelId: "", loaded: 0, problem: "" });
  refreshSoon();
  await loading;
  await connect();
}

/** The button that opens the panel, and the panel. */
export function Corner(): VNode {
  const [isOpen, setOpen] = useState(false);
  return h(
    "span",
    { class: "docs" },
    h("button", { class: "quiet", onClick: () => setOpen(true) }, t("model")),
    isOpen ? h(Panel, { onClose: () => setOpen(false) }) : null,
  );
}

function Panel({ onClose }: { onClose: () => void }): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const [id, setId] = useState(chosen() === BUNDLED_MODEL ? "" : chosen());
  const [found, setFound] = useState<Estimate & { readonly plan: ModelPlan }>();
  const [problem, setProblem] = useState("");
  const isLoading = useStore(session, ({ link }) => link === "loading");
  useEffect(() => box.current?.showModal(), []);
  const attempt = async (work: () => Promise<void>) => {
    setProblem("");
    try {
      await work();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const use = (source: ModelSource) =>
    attempt(async () => {
      service.checkFree();
      memory.write("source", typeof source === "string" ? source : BUNDLED_MODEL);
      onClose();
      await load(source);
    });
  const look = async (name: string) => {
    if (!isHubId(name) && !parseHubFile(name)) {
      throw new Error(t("notOnHub", { name }));
    }
    setProblem(t("readingHub"));
    const options = optionsOf(name);
    setFound({ ...await estimate(name, options), plan: await planModel(name, options) });
    setProblem("");
  };
  const pick = (asFolder: boolean) => ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const files = [...currentTarget.files ?? []];
    if (files.length > 0) void use(asFolder ? files : { transformer: files[0]! });
  };
  const isTooLarge = found?.freeBytes !== undefined && found.missingBytes > found.freeBytes;
  return h(
    "dialog",
    { ref: box, class: "key-dialog", "aria-labelledby": "model-title", onClose },
    h(
      "form",
      {
        onSubmit: (event) => {
          event.preventDefault();
          void (found && !isTooLarge ? use(id.trim()) : attempt(() => look(id.trim())));
        },
      },
      h("h2", { id: "model-title" }, t("model")),
      h("button", { class: "quiet", onClick: () => void use(BUNDLED_MODEL) }, t("bundledModel")),
      h("label", { for: "hub-id" }, t("fromHub")),
      h("input", {
        id: "hub-id",
        value: id,
        placeholder: t("hubPlace"),
        autocomplete: "off",
        spellcheck: false,
        onInput: ({ currentTarget }) => {
          setId(currentTarget.value);
          setFound(undefined);
        },
      }),
      h("label", { for: "hub-transformer" }, t("hubTransformer")),
      h("input", {
        id: "hub-transformer",
        value: transformer(),
        placeholder: "org/name:file.gguf",
        autocomplete: "off",
        spellcheck: false,
        onInput: ({ currentTarget }) => {
          memory.write("transformer", currentTarget.value.trim());
          setFound(undefined);
        },
      }),
      h("label", { for: "hub-address" }, t("hubAddress")),
      h("input", {
        id: "hub-address",
        type: "url",
        value: hub(),
        onInput: ({ currentTarget }) => {
          memory.write("hub", currentTarget.value || DEFAULT_HUB);
          setFound(undefined);
        },
      }),
      h("label", { for: "model-folder" }, t("modelFolder")),
      h("input", {
        id: "model-folder",
        type: "file",
        // deno-lint-ignore no-explicit-any -- preact's types lack it
        ...{ webkitdirectory: true } as any,
        onChange: pick(true),
      }),
      h("label", { for: "model-file" }, t("modelFile")),
      h("input", {
        id: "model-file",
        type: "file",
        accept: ".safetensors,.gguf",
        onChange: pick(false),
      }),
      h("label", { for: "model-memory" }, t("gpuMemory")),
      h("input", {
        id: "model-memory",
        type: "number",
        min: 1,
        value: vramGib(),
        onChange: ({ currentTarget }) => {
          memory.write("vram", Math.max(1, Number(currentTarget.value) || 1));
          setFound(undefined);
        },
      }),
      h("p", { class: "muted", role: "status" }, problem || (found ? costOf(found) : "")),
      h(
        "button",
        { type: "submit", class: "generate", disabled: id.trim() === "" || isLoading },
        t(found && !isTooLarge ? "fetchAndLoad" : "howLarge"),
      ),
      h("button", { class: "quiet", onClick: onClose }, t("close")),
    ),
  );
}

function costOf(
  { bytes, missingBytes, freeBytes, plan }: Estimate & { readonly plan: ModelPlan },
): string {
  const kept = bytes - missingBytes;
  return [
    t(kept > 0 ? "toFetchPart" : "toFetch", { size: sized(missingBytes), here: sized(kept) }),
    freeBytes === undefined
      ? t("storesUnknown")
      : missingBytes > freeBytes
      ? t("storesTooLittle", { size: sized(freeBytes) })
      : t("stores", { size: sized(freeBytes) }),
    roomOf(plan),
  ].join(" ");
}

/** What the GPU can hold of it. */
function roomOf({ width, height, memory: { fits, ...bytes } }: ModelPlan): string {
  const { peakBytes, budgetBytes, reloadedBytes } = bytes;
  return t(!fits ? "planTooLarge" : reloadedBytes > 0 ? "planReloads" : "planFits", {
    size: `${width}\u00d7${height}`,
    peak: sized(peakBytes),
    budget: sized(budgetBytes),
    again: sized(reloadedBytes),
  });
}
