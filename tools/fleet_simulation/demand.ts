/** A made-up day of requests in usual proportions: when they come, whose they are, what they ask for. */

import { Random, Weighted } from "./random.ts";

interface SimulatedModel {
  readonly name: string;
  readonly share: number;
  /** Mean time of a request, in seconds. */
  readonly seconds: number;
  /** Time to bring it onto the card, in seconds. */
  readonly loadSeconds: number;
  /** Device memory that it needs, in GB. */
  readonly gigabytes: number;
}

export const MODELS: readonly SimulatedModel[] = [
  { name: "small image", share: 0.45, seconds: 8, loadSeconds: 12, gigabytes: 13 },
  { name: "image", share: 0.30, seconds: 12, loadSeconds: 20, gigabytes: 18 },
  { name: "large image", share: 0.13, seconds: 60, loadSeconds: 45, gigabytes: 22 },
  { name: "edit", share: 0.08, seconds: 90, loadSeconds: 60, gigabytes: 40 },
  { name: "video", share: 0.04, seconds: 480, loadSeconds: 90, gigabytes: 46 },
];

/** Mean GPU time of a request, in seconds, without what is loaded for it. */
export const MEAN_SECONDS: number = MODELS.reduce(
  (sum, { share, seconds }) => sum + share * seconds,
  0,
);

/** Time to set LoRAs, in seconds. */
export const LORA_SECONDS = 2;

/** Share of the requests by hour of the day, for a mean of 1. */
const DAY_CURVE: readonly number[] = [
  ...[0.55, 0.45, 0.40, 0.38, 0.40, 0.48, 0.62, 0.80, 0.98, 1.12, 1.20, 1.22],
  ...[1.20, 1.22, 1.25, 1.28, 1.32, 1.40, 1.50, 1.60, 1.62, 1.45, 0.95, 0.61],
];

/** A class of clients in reports: those who send most, and fewer. */
export const CLIENT_CLASSES = [
  { name: "the 10 heaviest", upTo: 10 },
  { name: "the next 90", upTo: 100 },
  { name: "the next 900", upTo: 1000 },
  { name: "all others", upTo: Infinity },
] as const;

/** Share of clients that send their requests in batches. */
const BATCHING = 0.005;
/** Mean number of requests in a batch. */
const BATCH = 300;
/** Share of the requests of a client that ask for the model it likes best. */
const LOYALTY = 0.8;
/** Share of clients that have LoRAs of their own. */
const WITH_LORAS = 0.3;

export interface Arrival {
  /** Index of the client: the lower, the more it sends. */
  readonly client: number;
  readonly model: SimulatedModel;
  readonly loras: readonly string[];
  /** Priority: batches have a lower one. */
  readonly priority: number;
  /** How long it takes, in seconds; that of the model is expected. */
  readonly seconds: number;
}

interface DemandOptions {
  readonly seed: number;
  readonly clients: number;
  /** Requests per second, on average over a day. */
  readonly rate: number;
}

export class Demand {
  readonly #random: Random;
  readonly #options: DemandOptions;
  readonly #batching: number;
  readonly #senders: Weighted;
  readonly #perSending: number;
  readonly #models = new Weighted(MODELS.map(({ share }) => share));
  readonly #likes: number[];
  readonly #loras: (readonly string[])[];

  constructor(options: DemandOptions) {
    const random = new Random(options.seed);
    this.#random = random;
    this.#options = options;
    this.#batching = Math.round(options.clients * BATCHING);
    const clients = Array.from({ length: options.clients }, (_, index) => index);
    const jobs = clients.map((index) => 1 / (index + 10));
    const sendings = clients.map((index) => jobs[index]! / this.#meanBatch(index));
    this.#senders = new Weighted(sendings);
    this.#perSending = jobs.reduce((a, b) => a + b) / sendings.reduce((a, b) => a + b);
    this.#likes = clients.map(() => this.#models.draw(random));
    this.#loras = clients.map((index) =>
      random.uniform() < WITH_LORAS ? [`${index}:${random.below(3)}`] : []
    );
  }

  /** When the next request comes, and a batch with it, in seconds since the day began. */
  after(now: number): number {
    const most = Math.max(...DAY_CURVE);
    const mean = this.#perSending / (this.#options.rate * most);
    for (let time = now;;) {
      time += this.#random.exponential(mean);
      if (this.#random.uniform() * most < curveAt(time)) return time;
    }
  }

  /** What comes then: one request, or a batch of one client. */
  *arrivals(): Generator<Arrival> {
    const random = this.#random;
    const client = this.#senders.draw(random);
    const count = random.geometric(this.#meanBatch(client));
    const drawn = random.uniform() < LOYALTY ? this.#likes[client]! : this.#models.draw(random);
    const loras = drawn === this.#likes[client] ? this.#loras[client]! : [];
    const model = MODELS[drawn]!;
    for (let index = 0; index < count; index++) {
      const seconds = random.logNormal(model.seconds, 0.4);
      yield { client, model, loras, priority: count > 1 ? -1 : 0, seconds };
    }
  }

  #meanBatch(client: number): number {
    return client < this.#batching ? BATCH : 1;
  }
}

/** Between the middles of hours, straight. */
function curveAt(seconds: number): number {
  const hour = seconds / 3600 - 0.5;
  const from = Math.floor(hour);
  const at = (index: number) => DAY_CURVE[(index + 24) % 24]!;
  return at(from) + (hour - from) * (at(from + 1) - at(from));
}
