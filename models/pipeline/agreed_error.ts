/** Failures that wider factors may help against, where several GPUs make a request: all of them begin again, or none. */
import { NoteError, type RunControl, SaturationError, TeamError } from "../../runtime/mod.ts";
import { type Ranks, teamsOf } from "../sharing/ranks.ts";
import { OverflowError } from "./non_finite.ts";
import type { Attempt } from "./work.ts";

/** What stands for an overflow among layers. */
const OVERFLOW = "overflow";
/** Layers of which the others are told: whoever computes these again finds the rest. */
const MAX_TOLD = 100;

/**
 * Tells the other GPUs what this one failed of, or what it heard of one of them.
 *
 * @param attempt after the last step of which the others have nothing to do any more
 */
export async function agreed(
  thrown: unknown,
  ranks: Ranks,
  { denoised }: Attempt,
  control: RunControl,
): Promise<unknown> {
  const layers = layersOf(thrown);
  if (!layers || denoised) return thrown;
  const note = JSON.stringify(layers.slice(0, MAX_TOLD));
  for (const team of teamsOf(ranks)) {
    if (thrown instanceof NoteError && thrown.team === team) continue;
    try {
      await team.meet({ name: "failure", brought: [], taken: [], note }, control);
    } catch (error) {
      // Who has ended has no part in what is left.
      if (error instanceof TeamError && error.hasEnded) continue;
      if (!(error instanceof NoteError)) return error;
      layers.push(...layersOf(error)!);
    }
  }
  return layers.includes(OVERFLOW)
    ? new OverflowError()
    : new SaturationError([...new Set(layers)]);
}

/** Layers that must be computed again; nothing of other failures. */
function layersOf(error: unknown): string[] | undefined {
  if (error instanceof SaturationError) return [...error.layers];
  if (error instanceof OverflowError) return [OVERFLOW];
  if (!(error instanceof NoteError)) return undefined;
  return error.notes.flatMap((note) => JSON.parse(note) as string[]);
}
