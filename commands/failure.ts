/** How a command ends when it cannot do what it was asked. */

import { CommanderError } from "commander";
import { spellSettings } from "../generation/mod.ts";
import { OutOfMemoryError } from "../runtime/mod.ts";
import { flagName } from "./field_flags.ts";
import { PART_FLAGS } from "./flags.ts";

/** The command line itself is wrong; the program ends with status 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Calls what reads values of the command line. */
export function asUsage<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    throw new UsageError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** Status of a command that was stopped with Ctrl-C. */
const CANCELLED = 130;

interface Failure {
  /** One sentence, with a table below it where memory is short, or nothing when all has been said. */
  sentence: string;
  status: number;
}

const FOREIGN_FLAGS: ReadonlyMap<string, string> = new Map([
  ...["--steps", "--sample-steps"].map((name) => [name, "--num-inference-steps"] as const),
  ...["--cfg-scale", "--cfg", "--guidance"].map((name) => [name, "--guidance-scale"] as const),
  ...["--batch-size", "--batch-count", "--n"].map((name) => [name, "--num-outputs"] as const),
  ...["--sampling-method", "--sampler-name"].map((name) => [name, "--sampler"] as const),
  ...["--model", "--ckpt", "--diffusion-model"].map((name) => [name, "--model-path"] as const),
]);

/** What to make of anything that was thrown. Stacks are not for users. */
export function describeFailure(error: unknown): Failure {
  if (error instanceof CommanderError) {
    const isHelp = error.exitCode === 0;
    const [, foreign = ""] = /unknown option '(--[\w-]+)/.exec(error.message) ?? [];
    const ours = FOREIGN_FLAGS.get(foreign);
    return {
      sentence: isHelp
        ? ""
        : oneLine(error.message.replace(/^error: /, "") + (ours ? `; use ${ours}` : "")),
      status: isHelp ? 0 : 2,
    };
  }
  if (error instanceof UsageError) return { sentence: oneLine(error.message), status: 2 };
  if (error instanceof DOMException && error.name === "AbortError") {
    return { sentence: "Cancelled", status: CANCELLED };
  }
  // Its table of what each stage needs is our own and cannot be read without its lines.
  if (error instanceof OutOfMemoryError) return { sentence: error.message.trim(), status: 1 };
  const message = spellParts(error instanceof Error ? error.message : String(error));
  const said = error instanceof RangeError ? spellSettings(message, flagName) : message;
  return { sentence: oneLine(said || "Cannot go on: an unknown error occurred"), status: 1 };
}

/** The sentence with flags of parts for their names in the library: `--vae` for `parts.vae`. */
export function spellParts(text: string): string {
  return text.replace(
    /(?<![\w/\\.-])parts\.(\w{1,32})/g,
    (all, part: string) => Object.hasOwn(PART_FLAGS, part) ? flagName(part) : all,
  );
}

/** No message fills the terminal, whatever a file had in it. */
const MAX_LENGTH = 2000;

function oneLine(text: string): string {
  const line = text.split("\n").map((line) => line.trim()).filter(Boolean).join(" ");
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH)}…` : line;
}
