/** What a series of measurements says. */

/**
 * The value below which a share of the values lies, by linear interpolation between neighbours.
 *
 * @param share 0 to 1: 0.5 is the median, 0.99 the 99th percentile
 * @throws {RangeError} when there are no values or the share is no share
 */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new RangeError("Cannot take a percentile: there are no values");
  if (!(share >= 0 && share <= 1)) {
    throw new RangeError(`Cannot take a percentile at ${share}: the share must be 0 to 1`);
  }
  const sorted = values.toSorted((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const below = sorted[Math.floor(place)]!;
  const above = sorted[Math.ceil(place)]!;
  return below + (above - below) * (place - Math.floor(place));
}

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** The smallest value: what the machine can do when nothing else disturbs it. */
export function best(values: readonly number[]): number {
  return percentile(values, 0);
}

/**
 * The arithmetic mean.
 *
 * @throws {RangeError} when there are no values
 */
export function mean(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError("Cannot take a mean: there are no values");
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * Growth per value by least squares: what a series gains from one value to the next.
 *
 * @throws {RangeError} when there are fewer
 */
export function slope(values: readonly number[]): number {
  if (values.length < 2) {
    throw new RangeError(`Cannot fit a line through ${values.length} values: two are needed`);
  }
  const middle = (values.length - 1) / 2;
  const average = mean(values);
  let product = 0;
  let square = 0;
  values.forEach((value, i) => {
    product += (i - middle) * (value - average);
    square += (i - middle) ** 2;
  });
  return product / square;
}

/** How a series that should stay flat moved. */
interface Drift {
  /** Means of the first and the last ten values after the warm-up. */
  first: number;
  last: number;
  /** Growth per value over all values after the warm-up, by least squares. */
  slope: number;
}

/**
 * Compares the beginning of a series with its end.
 *
 * @param warmUp how many to leave out at the start
 * @throws {RangeError} when fewer than two are left
 */
export function drift(values: readonly number[], warmUp: number): Drift {
  const rest = values.slice(warmUp);
  return { slope: slope(rest), first: mean(rest.slice(0, 10)), last: mean(rest.slice(-10)) };
}
