/** Which of the training's timesteps a run visits, as the classes of diffusers space them. */
import { boundedField, choiceField, type SchedulerConfig } from "./config.ts";
import { exact, linspace } from "./shift.ts";

export type Spacing = "linspace" | "leading" | "trailing";

interface SpacingRule {
  /** Where `timestep_spacing` is absent. */
  readonly fallback: Spacing;
  /** Whether timesteps of `linspace` are whole numbers. */
  readonly whole: boolean;
  /** Whether the first of one more timestep is dropped at the low end, but for `trailing`. */
  readonly dropsLast?: boolean;
}

export function spacingOf(config: SchedulerConfig, { fallback }: SpacingRule): Spacing {
  return choiceField(config, "timestep_spacing", ["linspace", "leading", "trailing"], fallback);
}

/** `count` timesteps of `trained`, descending. */
export function spacedTimesteps(
  config: SchedulerConfig,
  rule: SpacingRule,
  trained: number,
  count: number,
): number[] {
  const spacing = spacingOf(config, rule);
  if (spacing === "trailing") {
    const step = trained / count;
    return Array.from({ length: count }, (_, i) => roundHalfEven(trained - i * step) - 1);
  }
  const points = rule.dropsLast ? count + 1 : count;
  const ascending = spacing === "linspace"
    ? linspace(0, trained - 1, points).map(rule.whole ? roundHalfEven : exact)
    : leading(config, trained, points);
  return ascending.slice(points - count).reverse();
}

function leading(config: SchedulerConfig, trained: number, points: number): number[] {
  const offset = boundedField(config, "steps_offset", 0, 0, trained);
  const step = Math.floor(trained / points);
  return Array.from({ length: points }, (_, i) => i * step + offset);
}

/** As NumPy rounds. */
export function roundHalfEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}
