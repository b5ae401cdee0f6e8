/** Processes that share jobs by a database: what `serve()` takes to start one of them. */

import type { Start } from "../server/start_options.ts";

/** What a process is among those that share a database. */
export interface FleetPlace {
  /** PostgreSQL: `postgres://user:password@host/database`. */
  databaseUrl: string;
  /** A front takes requests, a worker runs jobs. */
  role: "front" | "worker" | "both";
}

/** The start of a member of a fleet, for `serve()`. */
export function startMember(place: FleetPlace): Start {
  return async (options) => {
    // Load the fleet only when it is used.
    const { startFleetMember } = await import("./start.ts");
    return await startFleetMember({ ...options, fleet: place });
  };
}
