/** The page that reports a GPU: `denoise report` in a tab, without a server and without a model. */
import manifest from "../deno.json" with { type: "json" };
import { OS, RUNTIME } from "../platform/mod.ts";
import { reportMarkdown } from "../report/markdown.ts";
import { runReport } from "../report/run_report.ts";
import { GRACE_SECONDS, SectionListener } from "../report/run_section.ts";
import type { SectionOrder } from "../report/sections/section.ts";
import type { GpuReport, SectionName, SectionResult } from "../report/types.ts";

/** What a wrong result costs is more than what a slow one does. */
const ORDER: readonly SectionName[] = [
  "environment",
  "correctness",
  "probes",
  "ops",
  "steps",
  "tuning",
  "stages",
];
/** Longest address that browsers and forges take. */
const MAX_ADDRESS = 7000;

interface PageOptions {
  readonly minutes: number;
  /** Bytes of device memory that may be taken: taking all could end the whole browser's GPU. */
  readonly maxBytes: number;
  readonly sections?: readonly SectionName[];
  readonly onBegin: (section: string, what: string) => void;
  readonly onReport: (report: GpuReport) => void;
}

/** Measures, and gives the report as it is after every section. */
export async function measure(options: PageOptions): Promise<GpuReport> {
  const { sections = ORDER, onReport, ...rest } = options;
  return await runReport({
    ...rest,
    version: manifest.version,
    sections,
    backends: ["browser"],
    machine: {
      os: OS,
      cpu: "",
      cores: navigator.hardwareConcurrency,
      memory: ((navigator as { deviceMemory?: number }).deviceMemory ?? 0) * 2 ** 30,
      runtime: RUNTIME,
    },
    runSection,
    onReport: (report) => Promise.resolve(onReport(report)),
  });
}

function runSection(order: SectionOrder, onBegin: (what: string) => void): Promise<SectionResult> {
  const worker = new Worker(new URL("./report_worker.js", import.meta.url), { type: "module" });
  const section = new SectionListener(order, onBegin);
  return new Promise((resolve) => {
    const end = (isLate: boolean, how: string) => {
      clearTimeout(limit);
      worker.terminate();
      resolve(section.result(isLate, how));
    };
    const limit = setTimeout(() => end(true, ""), (order.seconds + GRACE_SECONDS) * 1000);
    worker.onerror = ({ message }) => end(false, `its worker ended: ${message}`);
    worker.onmessage = ({ data }) => {
      section.hear(data);
      if (data.type === "end" || data.type === "failed") end(false, "");
    };
    worker.postMessage(order);
  });
}

export { reportMarkdown };

/** The address that opens a new issue with a report in it; cut where it would be too long. */
export function issueAddress(base: string, report: GpuReport): string {
  const markdown = reportMarkdown(report);
  const title = /^# (.*)$/m.exec(markdown)?.[1] ?? "GPU report";
  const note = "\n\n(The report is longer than an address may be: please paste the rest.)";
  const url = new URL(base);
  url.searchParams.set("title", `${title}, ${report.machine.runtime}`);
  for (let length = markdown.length;; length = Math.floor(length * 0.8)) {
    const body = length === markdown.length ? markdown : markdown.slice(0, length) + note;
    url.searchParams.set("body", body);
    if (url.href.length <= MAX_ADDRESS || length < 100) return url.href;
  }
}

const byId = (id: string) => document.getElementById(id)!;

/** Ties the page's controls to the measurement. */
function start(): void {
  const issues = document.body.dataset["issues"] ?? "";
  let report: GpuReport | undefined;
  byId("phone").hidden = OS !== "android" && OS !== "ios";
  byId("no-gpu").hidden = "gpu" in navigator;
  const form = byId("form") as HTMLFormElement;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = new FormData(form);
    const button = byId("start") as HTMLButtonElement;
    button.disabled = true;
    byId("result").hidden = true;
    const begun = performance.now();
    report = await measure({
      minutes: Number(values.get("minutes")),
      maxBytes: Number(values.get("memory")) * 2 ** 30,
      onBegin: (section, what) => {
        const minutes = ((performance.now() - begun) / 60_000).toFixed(1);
        byId("now").textContent = `${minutes} min · ${section}: ${what}`;
      },
      onReport: show,
    });
    byId("now").textContent = "Done.";
    button.disabled = false;
  });
  const show = (found: GpuReport) => {
    report = found;
    (byId("text") as HTMLTextAreaElement).value = reportMarkdown(found);
    byId("result").hidden = false;
    byId("post").hidden = issues === "";
  };
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText((byId("text") as HTMLTextAreaElement).value);
    byId("copied").textContent = "Copied.";
  });
  byId("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(report, null, 1)]));
    link.download = "report.json";
    link.click();
  });
  byId("post").addEventListener("click", () => {
    if (report) globalThis.open(issueAddress(issues, report), "_blank", "noopener");
  });
}

if (globalThis.document && document.getElementById("form")) start();
