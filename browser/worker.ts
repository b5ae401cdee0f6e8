/** The thread of a tab that owns the GPU: the program's own, with the tab's files; the same script fetches files. */
import "../engine/worker.ts";
import { mount } from "./files.ts";
import type { FromBrowserWorker, MountedFile, ToBrowserWorker } from "./messages.ts";
import { obtain } from "./store.ts";

const scope = self as unknown as {
  onmessage: (event: MessageEvent) => unknown;
  postMessage(message: FromBrowserWorker): void;
};
const toEngine = scope.onmessage;

scope.onmessage = (event: MessageEvent<ToBrowserWorker>) => {
  const { data } = event;
  if (data.type === "mount") {
    for (const { path, ...file } of data.files) {
      mount(path, "blob" in file ? { kind: "blob", ...file } : { kind: "remote", ...file });
    }
    return;
  }
  return data.type === "obtain" ? obtainAll(data) : toEngine(event);
};

async function obtainAll({ files, cache }: Extract<ToBrowserWorker, { type: "obtain" }>) {
  const post = (message: FromBrowserWorker) => scope.postMessage(message);
  const onBytes = (count: number) => post({ type: "bytes", count });
  try {
    const obtained: MountedFile[] = [];
    for (const { path, ...file } of files) {
      obtained.push({ path, blob: await obtain(file, { cache, onBytes }) });
    }
    post({ type: "obtained", files: obtained });
  } catch (error) {
    post({ type: "refused", message: error instanceof Error ? error.message : String(error) });
  }
}
