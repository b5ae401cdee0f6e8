/** The more members a fleet has, the less each asks of the database that all share. In a small one nobody waits. */

/** Time between two free workers that look for the same new job, in milliseconds. */
const GAP_MS = 3;
const MAX_WAIT_MS = 1000;
/** Readings of the queue by workers that heard nothing, of all together, a second. */
const LOOKS_PER_SECOND = 50;
/** Readings of the roster, of all members together, in the time between two beats. */
const ROSTERS_PER_BEAT = 100;
/** Most beats between two readings of the roster by one member. */
const MAX_BEATS = 10;

/** How long a free worker waits before it looks for a new job, in milliseconds: the first takes it, and the others need not. */
export function wakeDelay(free: number, random: number = Math.random()): number {
  return Math.min(MAX_WAIT_MS, Math.max(0, free - 1) * GAP_MS) * random;
}

/** How often a worker looks for jobs of which no news came, in milliseconds. */
export function lookInterval(free: number, leastMs: number): number {
  return Math.max(leastMs, free / LOOKS_PER_SECOND * 1000);
}

/** Whether a member reads the roster with a beat. */
export function readsRoster(beats: number, members: number): boolean {
  return beats % Math.min(MAX_BEATS, Math.max(1, Math.ceil(members / ROSTERS_PER_BEAT))) === 0;
}
