/** Measured figures: names, units, and which way is better. */

/** Units of what gets better as it falls, then of what gets better as it rises. */
export type Unit = "s" | "ms" | "MB" | "kB" | "%" | "/s" | "GFLOP/s" | "GB/s";

/** One measured value. */
interface Figure {
  readonly value: number;
  readonly unit: Unit;
}

/** Figures by name, such as `image 64x64 best`. */
export type Figures = Readonly<Record<string, Figure>>;

/** What a figure should stay below. */
export interface Target {
  readonly name: string;
  readonly below: number;
}

/** What the project holds itself to; in the units of the figures. */
export const TARGETS: readonly Target[] = [
  { name: "image 64x64 median", below: 5 },
  { name: "load median", below: 2 },
  { name: "first image", below: 240 },
  { name: "/health p99 while generating", below: 50 },
  { name: "memory growth over the series", below: 5 },
  { name: "warm switch of LoRAs, bundled model", below: 100 },
  { name: "warm switch of LoRAs, 1 GB model", below: 100 },
  { name: "rank 32 on all linear layers, 1 GB model", below: 5 },
];

/** Whether more of it is better: rates are, times and sizes are not. */
function isRate(unit: Unit): boolean {
  return unit.endsWith("/s");
}

/** A figure for people: three significant digits and the unit. */
export function formatFigure({ value, unit }: Figure): string {
  const digits = Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
  return `${digits} ${unit}`;
}

/**
 * How much better `after` is: 2 is twice as fast, or half the bytes; below 1 is worse. Undefined
 * where the two cannot be compared.
 */
export function improvement(before: Figure, after: Figure): number | undefined {
  if (before.unit !== after.unit) return undefined;
  const ratio = isRate(after.unit) ? after.value / before.value : before.value / after.value;
  return Number.isFinite(ratio) && ratio > 0 ? ratio : undefined;
}
