/** Comparing what the variants of an op compute: a glance that finds a broken kernel, not a test of accuracy. */

/**
 * Largest difference between two variants, as a part of the largest magnitude. Variants that round their operands
 * to 8 bits stay below; a driver that gets a kernel wrong is far above.
 */
const TOLERANCE = 0.03;

/**
 * Finds results that differ from those of the others.
 *
 * The result that most others agree with is taken for right; among equals the first.
 */
export function findOutliers(results: readonly Float32Array[]): number[] {
  const agrees = results.map((a) => results.map((b) => difference(a, b) <= TOLERANCE));
  const votes = agrees.map((row) => row.filter((agreed) => agreed).length);
  const trusted = votes.indexOf(Math.max(...votes));
  return [...results.keys()].filter((i) => !agrees[trusted]![i]);
}

/** Largest difference as a part of the largest magnitude; infinite where either is no finite number. */
function difference(a: Float32Array, b: Float32Array): number {
  let largest = 1e-30;
  let worst = 0;
  for (let i = 0; i < a.length; i++) {
    const gap = Math.abs(a[i]! - b[i]!);
    if (!Number.isFinite(gap)) return Infinity;
    if (gap > worst) worst = gap;
    largest = Math.max(largest, Math.abs(a[i]!), Math.abs(b[i]!));
  }
  return worst / largest;
}
