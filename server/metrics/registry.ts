/**
 * Counters, gauges and histograms in the text format of Prometheus.
 *
 * Source: Prometheus exposition formats, version 0.0.4.
 *
 * @module
 */

/** Values of a metric's labels, in the order of their names. */
export type LabelValues = readonly string[];

/** One line of a metric. */
interface Sample {
  readonly suffix: string;
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly value: number;
}

/** What all metrics have in common. */
abstract class Metric {
  /** Such as `denoise_jobs_total`. */
  readonly name: string;
  readonly #help: string;
  readonly #type: string;
  /** Names of the labels. */
  protected readonly labelNames: readonly string[];

  constructor(type: string, name: string, help: string, labelNames: readonly string[]) {
    this.#type = type;
    this.name = name;
    this.#help = help;
    this.labelNames = labelNames;
  }

  /** The metric with its samples; empty where there are none. */
  text(): string {
    const lines = [...this.samples()].map(({ suffix, labels, value }) =>
      `${this.name}${suffix}${braces(labels)} ${numberText(value)}\n`
    );
    if (lines.length === 0) return "";
    return `# HELP ${this.name} ${this.#help}\n# TYPE ${this.name} ${this.#type}\n${
      lines.join("")
    }`;
  }

  protected abstract samples(): Iterable<Sample>;

  protected labelsOf(values: LabelValues): [string, string][] {
    return this.labelNames.map((name, index) => [name, values[index] ?? ""]);
  }
}

/** A number that only grows. */
export class Counter extends Metric {
  readonly #values = new Map<string, { labels: LabelValues; value: number }>();

  /** @param name ends with `_total` */
  constructor(name: string, help: string, labelNames: readonly string[] = []) {
    super("counter", name, help, labelNames);
  }

  /** Adds one. */
  add(...labels: string[]): void {
    const key = labels.join("\0");
    const entry = this.#values.get(key) ?? { labels, value: 0 };
    entry.value++;
    this.#values.set(key, entry);
  }

  protected *samples(): Iterable<Sample> {
    for (const { labels, value } of this.#values.values()) {
      yield { suffix: "", labels: this.labelsOf(labels), value };
    }
  }
}

/** Numbers that are looked up when they are asked for. */
export class Gauge extends Metric {
  readonly #read: () => Iterable<readonly [labels: LabelValues, value: number]>;

  /** @param read gives the numbers of now */
  constructor(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => Iterable<readonly [labels: LabelValues, value: number]>,
  ) {
    super("gauge", name, help, labelNames);
    this.#read = read;
  }

  protected *samples(): Iterable<Sample> {
    for (const [labels, value] of this.#read()) {
      yield { suffix: "", labels: this.labelsOf(labels), value };
    }
  }
}

/** How observed numbers are distributed. */
export class Histogram extends Metric {
  readonly #bounds: readonly number[];
  readonly #values = new Map<string, { labels: LabelValues; counts: number[]; sum: number }>();

  /** @param bounds upper bounds of the buckets, ascending; the last one, infinity, is added */
  constructor(
    name: string,
    help: string,
    labelNames: readonly string[],
    bounds: readonly number[],
  ) {
    super("histogram", name, help, labelNames);
    this.#bounds = [...bounds, Infinity];
  }

  /** Takes a number. */
  observe(value: number, ...labels: string[]): void {
    const key = labels.join("\0");
    const entry = this.#values.get(key) ??
      { labels, counts: this.#bounds.map(() => 0), sum: 0 };
    entry.counts[this.#bounds.findIndex((bound) => value <= bound)]!++;
    entry.sum += value;
    this.#values.set(key, entry);
  }

  protected *samples(): Iterable<Sample> {
    for (const { labels: values, counts, sum } of this.#values.values()) {
      const labels = this.labelsOf(values);
      let total = 0;
      for (const [index, bound] of this.#bounds.entries()) {
        total += counts[index]!;
        const le = ["le", numberText(bound)] as const;
        yield { suffix: "_bucket", labels: [...labels, le], value: total };
      }
      yield { suffix: "_sum", labels, value: sum };
      yield { suffix: "_count", labels, value: total };
    }
  }
}

function braces(labels: readonly (readonly [string, string])[]): string {
  if (labels.length === 0) return "";
  const escape = (value: string) =>
    value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
  return `{${labels.map(([name, value]) => `${name}="${escape(value)}"`).join(",")}}`;
}

function numberText(value: number): string {
  return value === Infinity ? "+Inf" : String(value);
}
