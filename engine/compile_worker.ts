/** A thread that compiles kernels on a device of its own, so that the driver has them when another one wants them. */
import { compileInTurn, openDevice, Turns } from "../runtime/mod.ts";
import { holdLifeline, type LifelineMessage } from "../platform/mod.ts";
import type { CompileTask } from "./protocol.ts";

/** The part of a worker's global scope that is used here. */
const scope = self as unknown as {
  onmessage: (event: MessageEvent<CompileTask | LifelineMessage>) => void;
  postMessage(message: "done"): void;
  close(): void;
};

holdLifeline();

scope.onmessage = async ({ data }) => {
  if ("type" in data) return;
  const { device: settings, kernels } = data;
  try {
    const turns = new Turns(data.turns);
    if (turns.isOver(kernels.length)) return;
    using device = await openDevice(settings);
    await compileInTurn(device, kernels, turns);
  } catch {
    // The device that wants the kernels compiles them itself then, and tells what is wrong with them.
  } finally {
    scope.postMessage("done");
    scope.close();
  }
};
