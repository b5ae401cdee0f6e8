/**
 * After which steps previews are made: at even distances between the first and the last.
 *
 * @param count how many are asked for
 * @returns indices of steps, in order; fewer than asked for where there are fewer steps
 */
export function previewSteps(totalSteps: number, count: number): number[] {
  const steps = Array.from(
    { length: count },
    (_, k) => Math.ceil((k + 1) * totalSteps / (count + 1)) - 1,
  );
  return [...new Set(steps)];
}
