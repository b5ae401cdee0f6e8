/** Runs the operations of `/docs` from the page itself. */

interface SampleRequest {
  method: string;
  path: string;
  query: string[];
  body?: object;
  fileField?: string;
}

/** Most characters of an answer, and of a text in it, that are shown. */
const MAX_ANSWER = 50_000;
const MAX_TEXT = 200;

const language = document.querySelector<HTMLSelectElement>("#language")!;
language.value = localStorage.getItem("denoise.docs.language") ?? language.value;
const choose = () => {
  document.body.dataset["language"] = language.value;
  localStorage.setItem("denoise.docs.language", language.value);
};
language.addEventListener("change", choose);
choose();
for (const element of document.querySelectorAll<HTMLElement>(".scripted")) element.hidden = false;

for (const operation of document.querySelectorAll<HTMLDetailsElement>("details[data-request]")) {
  const add = () => {
    if (!operation.open || operation.querySelector("form")) return;
    operation.querySelector(".tables")!.before(runForm(operation));
  };
  operation.addEventListener("toggle", add);
  add();
}

function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function runForm(operation: HTMLDetailsElement): HTMLFormElement {
  const request: SampleRequest = JSON.parse(operation.dataset["request"]!);
  const inputs = new Map<string, HTMLInputElement>();
  const input = (name: string, isRequired: boolean) => {
    const field = element("input", { name, required: isRequired, autocomplete: "off" });
    inputs.set(name, field);
    return element("label", {}, element("code", {}, name), " ", field);
  };
  const inPath = [...request.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const body = element("textarea", {
    rows: 4,
    value: JSON.stringify(request.body, null, 2) ?? "",
    spellcheck: false,
  });
  body.setAttribute("aria-label", "Body");
  const files = element("input", { type: "file", multiple: true });
  const button = element("button", {}, "Run");
  const answer = element("output");
  let running: AbortController | undefined;
  const form = element(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        if (running) return running.abort();
        running = new AbortController();
        button.textContent = "Stop";
        void run(running.signal).catch((error: Error) => {
          answer.append(element("p", {}, `${error.message}`));
        }).finally(() => {
          running = undefined;
          button.textContent = "Run";
        });
      },
    },
    ...inPath.map((name) => input(name, true)),
    ...request.query.map((name) => input(name, false)),
    ...(request.body ? [body] : []),
    ...(request.fileField
      ? [element("label", {}, element("code", {}, request.fileField), " ", files)]
      : []),
    button,
    answer,
  );

  async function run(signal: AbortSignal): Promise<void> {
    answer.replaceChildren();
    const valueOf = (name: string) => inputs.get(name)!.value.trim();
    const path = request.path.replaceAll(
      /\{(\w+)\}/g,
      (_, name) => valueOf(name).split("/").map(encodeURIComponent).join("/"),
    );
    const url = new URL(`.${path}`, new URL(".", location.href));
    for (const name of request.query) {
      if (valueOf(name) !== "") url.searchParams.set(name, valueOf(name));
    }
    const headers = new Headers();
    const key = document.querySelector<HTMLInputElement>("#key")?.value.trim();
    if (key) headers.set("authorization", `Bearer ${key}`);
    const init: RequestInit = { method: request.method, headers, signal };
    if (request.fileField) {
      const sent = new FormData();
      for (const [name, value] of Object.entries(JSON.parse(body.value || "{}"))) {
        for (const each of [value].flat()) {
          sent.append(name, typeof each === "object" ? JSON.stringify(each) : String(each));
        }
      }
      for (const file of files.files ?? []) sent.append(request.fileField, file);
      init.body = sent;
    } else if (request.body) {
      headers.set("content-type", "application/json");
      init.body = body.value;
    }
    const began = performance.now();
    const response = await fetch(url, init);
    const line = element("p", {}, `${response.status} ${response.statusText}`);
    answer.append(line);
    await show(response, answer);
    line.append(` in ${Math.round(performance.now() - began)} ms`);
  }

  return form;
}

async function show(response: Response, answer: HTMLElement): Promise<void> {
  const type = response.headers.get("content-type") ?? "";
  const pre = element("pre");
  if (type.startsWith("application/json")) {
    const value = await response.json();
    pre.textContent = JSON.stringify(value, shorten, 2).slice(0, MAX_ANSWER);
    answer.append(...imagesOf(value), pre);
  } else if (/^(?:image|video)\//.test(type)) {
    const src = URL.createObjectURL(await response.blob());
    answer.append(
      type.startsWith("image/")
        ? element("img", { src, alt: "The answer" })
        : element("video", { src, controls: true }),
    );
  } else if (/^(?:text\/|application\/openapi)/.test(type)) {
    answer.append(pre);
    const decoder = new TextDecoder();
    const reader = response.body!.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const text = decoder.decode(part.value, { stream: true });
      // Previews in events are long.
      pre.append(text.replaceAll(/[\w+/=]{300,}/g, (long) => `${long.slice(0, 40)}…`));
      if (pre.textContent!.length > MAX_ANSWER) break;
    }
    reader.cancel().catch(() => {});
  } else {
    const href = URL.createObjectURL(await response.blob());
    answer.append(element("a", { href, download: "result" }, `Save the answer (${type})`));
  }
}

function shorten(_: string, value: unknown): unknown {
  return typeof value === "string" && value.length > MAX_TEXT
    ? `${value.slice(0, MAX_TEXT)}… (${value.length} characters)`
    : value;
}

/** The images that an answer brings as base64. */
function imagesOf({ data }: { data?: unknown }): HTMLImageElement[] {
  return [data ?? []].flat().flatMap((item) => {
    const { b64_json } = (item ?? {}) as { b64_json?: string };
    return b64_json
      ? element("img", { src: `data:image/*;base64,${b64_json}`, alt: "An image of the answer" })
      : [];
  });
}
