/** A thread that compiles kernels on a device of its own, so that the driver has them when another one wants them. */
import { compileInTurn, openDevice, Turns } from "../runtime/mod.ts";
import type { CompileAnswer, CompileTask } from "./compile_threads.ts";
import { threadPath } from "./lifeline.ts";

/** The part of a worker's global scope that is used here. */
const scope = self as unknown as {
  onmessage: (event: MessageEvent<CompileTask>) => void;
  postMessage(message: CompileAnswer): void;
  close(): void;
};

scope.postMessage({ type: "thread", path: threadPath() });

scope.onmessage = async ({ data: { device: settings, kernels, turns: shared } }) => {
  try {
    const turns = new Turns(shared);
    if (turns.isOver(kernels.length)) return;
    const device = await openDevice(settings);
    try {
      await compileInTurn(device, kernels, turns);
    } finally {
      device.destroy();
    }
  } catch {
    // The device that wants the kernels compiles them itself then, and tells what is wrong with them.
  } finally {
    scope.postMessage({ type: "done" });
    scope.close();
  }
};
