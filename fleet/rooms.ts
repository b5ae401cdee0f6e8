/**
 * Which workers can hold a request, as they say themselves: a front has neither the files of a model nor a device. The
 * answers are remembered.
 */

import { LRUCache } from "lru-cache";
import type { Engine, RoomRequest } from "../engine/types.ts";
import { OutOfMemoryError } from "../runtime/errors.ts";
import type { Calls } from "./calls.ts";
import { onlyRoom } from "./requests.ts";
import type { Worker } from "./roster.ts";

/** How long a worker may take to answer, in milliseconds: it may be dead. */
const PATIENCE_MS = 3000;
/** How long a worker that did not answer is not asked again, in milliseconds. */
const SILENT_MS = 10_000;
/** Most workers of one kind that are asked before a request is refused. */
const MAX_ASKED = 16;
const MAX_KNOWN = 1024;

/** What a worker says of a request; a JSON value. */
interface RoomAnswer {
  /** Why not; absent where it can. */
  readonly refusal?: string;
  /** Bytes that it would need at least, where it is for the memory. */
  readonly needs?: number;
}

/** Whether an engine can hold a request. */
export async function roomIn(engine: Engine, request: RoomRequest): Promise<RoomAnswer> {
  try {
    await engine.checkRoom(request);
    return {};
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // The table that may follow is for the owner of the machine.
    const refusal = error.message.split("\n")[0]!;
    return error instanceof OutOfMemoryError
      ? { refusal, needs: error.requestedBytes }
      : { refusal };
  }
}

interface Room {
  /** Why no worker can hold it; undefined where one can, or none has said. */
  readonly refusal: string | undefined;
  /** Bytes that a worker's device must have at least; 0 where each worker has them, as far as is known. */
  readonly memory: number;
}

export class Rooms {
  readonly #calls: Calls;
  /** Nothing where the worker does not say. */
  readonly #known = new LRUCache<string, Promise<RoomAnswer | undefined>>({ max: MAX_KNOWN });

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Asks a worker of each kind of device; all of them where each of these refuses. */
  async look(model: string, workers: readonly Worker[], request: RoomRequest): Promise<Room> {
    const size = onlyRoom(request);
    const ask = async (worker: Worker) => ({
      memory: worker.memory ?? Infinity,
      ...await this.#ask(model, worker, size),
    });
    const kinds = [...Map.groupBy(workers, kindOf).values()];
    const answers = await Promise.all(kinds.map(([first]) => ask(first!)));
    const isRefused = () => answers.length > 0 && answers.every(({ refusal }) => refusal);
    if (isRefused()) {
      const others = kinds.flatMap(([, ...others]) => others.slice(0, MAX_ASKED));
      answers.push(...await Promise.all(others.map(ask)));
    }
    if (isRefused()) {
      const largest = answers.reduce((one, other) => other.memory > one.memory ? other : one);
      return { refusal: largest.refusal, memory: 0 };
    }
    const holders = answers.filter(({ refusal }) => !refusal).map(({ memory }) => memory);
    const needs = Math.max(0, ...answers.map(({ needs = 0 }) => needs));
    // A worker that can hold it may have settings by which it takes less.
    return { refusal: undefined, memory: Math.min(needs, ...holders) };
  }

  #ask(model: string, worker: Worker, args: RoomRequest): Promise<RoomAnswer | undefined> {
    const key = JSON.stringify([model, worker.id, args]);
    const known = this.#known.get(key);
    if (known) return known;
    const question = { method: "check_room", model, args } as const;
    const answer = this.#calls.ask(worker.id, question, PATIENCE_MS).then(
      (said) => said as RoomAnswer,
      () => {
        this.#known.set(key, answer, { ttl: SILENT_MS });
        return undefined;
      },
    );
    this.#known.set(key, answer);
    return answer;
  }
}

/** Workers with the same devices hold the same. */
function kindOf({ version, memory, cards }: Worker): string {
  const names = cards.map((card) => (card as { device?: string | null }).device ?? null);
  return JSON.stringify([version, memory ?? null, names]);
}
