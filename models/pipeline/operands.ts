/** How narrow the factors of a model's products are, and what becomes of values that are too large for them. */
import {
  NoteError,
  type RunControl,
  SaturationError,
  type Target,
  TeamError,
} from "../../runtime/mod.ts";
import { OverflowError } from "./non_finite.ts";
import type { PipelineControl, PipelineRequest } from "./types.ts";
import { type Ranks, teamsOf } from "../sharing/ranks.ts";
import type { Attempt } from "./work.ts";

const MAX_SHOWN_LAYERS = 8;

interface Found {
  readonly overflows: boolean;
  /** Layers whose factors have been beyond f16: they are computed with f32. */
  readonly wideLayers: ReadonlySet<string>;
}

export class Operands {
  #found: Found = { overflows: false, wideLayers: new Set() };

  get found(): Found {
    return this.#found;
  }

  /** Narrowest operands of a request; the target's when undefined. */
  of({ quality }: PipelineRequest): Target["operands"] | undefined {
    if (quality === "exact") return "f32";
    return quality === "high" && !this.#found.overflows ? "int8" : undefined;
  }

  widen(
    error: unknown,
    { loras = [] }: PipelineRequest,
    onNote?: PipelineControl["onNote"],
  ): boolean {
    const { overflows, wideLayers } = this.#found;
    const [now, cause] = loras.length > 0
      ? ["this request computes", " and these LoRAs"]
      : ["from now on computed", ""];
    if (error instanceof OverflowError && !overflows) {
      this.#found = { overflows: true, wideLayers };
      onNote?.(
        `The transformer's values overflow with factors of int8${cause}: ${now} without them`,
      );
      return true;
    }
    if (!(error instanceof SaturationError)) return false;
    const layers = error.layers.filter((layer) => !wideLayers.has(layer));
    if (layers.length === 0) return false;
    this.#found = { overflows, wideLayers: new Set([...wideLayers, ...layers]) };
    const shown = layers.slice(0, MAX_SHOWN_LAYERS).join(", ");
    const more = layers.length - MAX_SHOWN_LAYERS;
    onNote?.(
      `Factors are beyond the range of f16; ${now} with f32: ${shown}${
        more > 0 ? ` and ${more} more` : ""
      }`,
    );
    return true;
  }

  /** Forgets what was found since: what LoRAs make of the weights says nothing of requests without them. */
  restore(found: Found): boolean {
    const isOther = this.#found !== found;
    this.#found = found;
    return isOther;
  }
}

const OVERFLOW = "overflow";
/** Layers of which the others are told: whoever computes these again finds the rest. */
const MAX_TOLD = 100;

/** Tells the other GPUs what this one failed of, or heard of one of them, unless nothing is left for them to do. */
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

function layersOf(error: unknown): string[] | undefined {
  if (error instanceof SaturationError) return [...error.layers];
  if (error instanceof OverflowError) return [OVERFLOW];
  if (!(error instanceof NoteError)) return undefined;
  return error.notes.flatMap((note) => JSON.parse(note) as string[]);
}
