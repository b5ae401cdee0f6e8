/** One section of a report: what it finds is told at once, so that a crash loses nothing. */

import { env, OWN_GPU } from "../platform/mod.ts";
import { openDevice } from "../runtime/mod.ts";
import { checkCases } from "./sections/correctness.ts";
import { readEnvironment } from "./sections/environment.ts";
import { measureOps } from "./sections/ops.ts";
import { measureStages, measureSteps } from "./sections/parts.ts";
import { probe } from "./sections/probes.ts";
import type { Section, SectionOrder } from "./sections/section.ts";
import { tuneTwice } from "./sections/tuning.ts";
import type { SectionData, SectionName, SectionResult } from "./types.ts";

/** Seconds beyond a section's time after which it is ended from outside: one long kernel may be at work. */
export const GRACE_SECONDS = 15;

export type SectionLine =
  | { readonly type: "begin"; readonly what: string }
  | { readonly type: "found"; readonly data: SectionData[SectionName] }
  | { readonly type: "end"; readonly isComplete: boolean }
  | { readonly type: "failed"; readonly message: string };

const SECTIONS: { readonly [Name in SectionName]: Section<Name> } = {
  environment: readEnvironment,
  probes: probe,
  correctness: checkCases,
  tuning: tuneTwice,
  ops: measureOps,
  steps: measureSteps,
  stages: measureStages,
};

/** Runs the section that is asked for; whether that went well. */
export async function runOrder(
  order: SectionOrder,
  say: (line: SectionLine) => void,
): Promise<boolean> {
  const begun = performance.now();
  try {
    const device = await openDevice(order.device);
    const section = SECTIONS[order.name] as Section<SectionName>;
    const isComplete = await section({
      device,
      known: order.known,
      deadline: begun + order.seconds * 1000,
      begin: (what) => say({ type: "begin", what }),
      found: (data) => say({ type: "found", data }),
    });
    say({ type: "end", isComplete });
    return true;
  } catch (error) {
    say({ type: "failed", message: (error as Error).message });
    return false;
  }
}

/** What a section has said so far, and the result that follows from it. */
export class SectionListener {
  #data: unknown;
  #what: string | undefined;
  #isComplete: boolean | undefined;
  #failure: string | undefined;
  readonly #begun = performance.now();

  constructor(readonly order: SectionOrder, readonly onBegin: (what: string) => void) {}

  hear(line: SectionLine): void {
    if (line.type === "begin") this.onBegin(this.#what = line.what);
    else if (line.type === "found") this.#data = line.data;
    else if (line.type === "end") this.#isComplete = line.isComplete;
    else this.#failure = line.message;
  }

  /** @param end how it ended where it has not said so itself */
  result(isLate: boolean, end: string): SectionResult {
    const { name, device: { backend } } = this.order;
    const common = {
      name,
      backend: backend === "auto" || backend === undefined ? OWN_GPU : backend,
      seconds: (performance.now() - this.#begun) / 1000,
      ...(this.#data !== undefined && { data: this.#data as never }),
    };
    if (this.#isComplete) return { ...common, state: "done" };
    if (this.#isComplete === false) return { ...common, state: "cut" };
    const at = this.#what === undefined ? "" : ` at "${this.#what}"`;
    const reason = `${this.#failure ?? (isLate ? "it did not end in time" : end)}${at}`;
    return { ...common, state: isLate ? "cut" : "failed", reason: withoutPaths(reason) };
  }
}

/** The home folder as paths and addresses spell it; its name may have spaces. */
function withoutHome(text: string, home = ""): string {
  if (home.length < 2) return text;
  const slashed = home.replaceAll("\\", "/");
  return [home, slashed, encodeURI(slashed)].reduce(
    (all, one) => all.replaceAll(one, "/home"),
    text,
  );
}

/** What tells of a machine's owner: folders of theirs. */
export function withoutPaths(text: string, home = env("USERPROFILE") ?? env("HOME")): string {
  return withoutHome(text, home).replace(
    /(?:file:\/\/)?(?:[A-Za-z]:)?[\\/](?:[^\s"'`:;,()\\/]+[\\/])+([^\s"'`:;,()\\/]*)/g,
    "…/$1",
  );
}
