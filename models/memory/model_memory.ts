/** A model's weights on the device, the LoRAs that change them, and sessions of the last kind of request. */
import {
  type Device,
  type DeviceTensor,
  freeHostBytes,
  measureMemory,
  OutOfMemoryError,
  type RunControl,
  type Target,
  TensorLimitError,
} from "../../runtime/mod.ts";
import type { AdaptedComponent } from "../lora/adapted_component.ts";
import { DeviceLoras } from "../lora/device_loras.ts";
import type { AdaptableComponent, AppliedLora } from "../lora/types.ts";
import type { Components, ResidencyPlan } from "./residency.ts";
import { describeMemory, type MemoryReport, memoryTable } from "./memory_report.ts";
import { type PlannedSession, SessionCache } from "./session_cache.ts";
import { bytesOf } from "./streaming.ts";

/** A way to run a request. Variants with the same tiles compute the same. */
export interface Variant {
  /** Longest side of what the autoencoder takes at once, in latents. */
  readonly tileSide: number;
  /**
   * One prompt, both together, or one after the other in half the memory, where what a pass could keep for the next may wait
   * in host memory, or be computed again.
   */
  readonly passes: "single" | "batched" | "sequential" | "streamed" | "recomputed";
}

export interface RequestKind<Session> {
  readonly key: string;
  /** The largest tiles first. Of equal tiles the first that can be kept together, else the one that reloads the fewest bytes. */
  readonly variants: readonly [Variant, ...Variant[]];
  trace(variant: Variant): Session;
  /** What cannot be done when nothing fits, such as `make 512x512`. */
  readonly subject: string;
  /** What else would take less, such as `ask for a smaller size`. */
  readonly advice: string;
}

/** How a model's memory is used. */
export interface MemoryOptions {
  /** Components that are freed after their stage in any case, by name. */
  readonly offloaded?: ReadonlySet<string>;
  /** Components that come to the device with the first request that uses them, by name. */
  readonly waiting?: ReadonlySet<string>;
  /** Whether weights that are not kept on the device are kept in host memory, as the device wants them. */
  readonly isPinned?: boolean;
  /** Takes a line for the log. */
  onNote?(line: string): void;
}

/** What a plan may count on, where no device needs to be open. */
export interface PlanRoom {
  /** What kernels are chosen for. */
  readonly target: Target;
  /** Bytes that may be taken at most; may be infinite. */
  readonly availableBytes: number;
  /** How many of the bytes that are wanted can be had. */
  measure(wantedBytes: number): number | Promise<number>;
  /** Bytes of host memory that results may wait in; none by default. */
  readonly hostBytes?: number | undefined;
}

export function roomOf(device: Device): PlanRoom {
  const { target, availableBytes } = device;
  const measure = (wanted: number) => measureMemory(device, wanted);
  return { target, availableBytes, measure, hostBytes: hostRoom(device) };
}

/** Bytes of host memory that results may wait in: none where the device has its memory from there, too. */
function hostRoom({ adapter }: Device): number {
  return adapter.isUnified ? 0 : freeHostBytes() * HOST_SHARE;
}

interface Planned {
  readonly plan: ResidencyPlan;
  readonly budgetBytes: number;
}

interface Choice<Session> {
  readonly variant: Variant;
  readonly session: Session;
  readonly plan: ResidencyPlan;
}

export class ModelMemory<Session extends PlannedSession> {
  readonly #components: Components;
  #options: MemoryOptions = {};
  #device: Device | undefined;
  readonly #loras: DeviceLoras;
  readonly #sessions = new SessionCache<Session>();
  #isAlone = false;

  /** `adapted` are the components that LoRAs can change. */
  constructor(components: Components, adapted: readonly AdaptedComponent[] = []) {
    this.#components = components;
    this.#loras = new DeviceLoras(adapted, (key) => this.#sessions.drop(key));
  }

  get adaptable(): AdaptableComponent[] {
    return this.#loras.adaptable;
  }

  get device(): Device {
    if (!this.#device) throw new Error("Cannot generate: the model is not loaded");
    return this.#device;
  }

  /**
   * Uploads the weights that stay between requests: those of the first of `kinds` that fits, the likeliest first.
   * @throws {OutOfMemoryError} when not even the last of them fits
   */
  async load(
    device: Device,
    kinds: readonly RequestKind<Session>[],
    options: MemoryOptions = {},
    onProgress?: (fraction: number) => void,
  ): Promise<void> {
    this.#device = device;
    this.#options = options;
    const found = await this.#firstThatFits(kinds);
    if (!found.fits) {
      throw this.#refusal("Cannot load the model", "choose a smaller model", found);
    }
    const wanted = await this.#wantedBetweenRequests(found);
    const total = bytesOf(wanted);
    let before = 0;
    for (const weights of Object.values(this.#components)) {
      const own = bytesOf([...weights.deviceTensors].filter((weight) => wanted.has(weight)));
      await weights.upload(device, (done) => onProgress?.((before + done) / total), wanted);
      before += own;
    }
  }

  /** Makes the model what it is with these LoRAs and no others, for all later sessions. */
  async adapt(loras: readonly AppliedLora[]): Promise<void> {
    await this.#loras.apply(loras, this.device);
    if (!this.#options.isPinned) this.#pinAltered();
  }

  /** Has weights that LoRAs are written into altered once, and not every time they come to the device. */
  #pinAltered(): void {
    const altered = new Set(
      Object.values(this.#components).flatMap((weights) => [...weights.altered()]),
    );
    for (const weight of this.#weights()) if (!altered.has(weight)) weight.unpin();
    this.#pinAll([...altered].filter((weight) => !weight.isAllocated));
  }

  /**
   * The session for a kind of request and the LoRAs in use.
   * @throws {OutOfMemoryError} with a table of what is needed, when nothing fits
   */
  async sessionFor(kind: RequestKind<Session>, control: RunControl = {}): Promise<Session> {
    // What a request of another kind left behind is no part of this one's peak.
    if (this.#sessions.dropOthers(kind.key)) this.device.resetPeak();
    const known = this.#sessions.find(this.#loras.key);
    if (known) return known;
    if (this.#isAlone) this.#sessions.clear();
    let found = await this.#choose(kind);
    if (!(found.fits && found.plan.isTogether) && this.#dropIdle()) {
      found = await this.#choose(kind);
    }
    const { session, plan } = found;
    if (!found.fits) throw this.#refusal(`Cannot ${kind.subject}`, kind.advice, found);
    await this.#makeRoom(plan);
    if (this.#options.isPinned) this.#pin(plan);
    await session.runner.allocate(this.device, plan, control);
    this.#isAlone = !plan.isTogether;
    this.#sessions.add(this.#loras.key, session);
    return session;
  }

  /**
   * What a kind of request would take of an empty device.
   * @throws {RangeError} when the device cannot hold one of its tensors
   */
  async report(
    kind: RequestKind<Session>,
    room: PlanRoom,
    options: MemoryOptions = {},
  ): Promise<MemoryReport> {
    const { availableBytes } = room;
    const { plan, budgetBytes } = await this.#choose(kind, room, options);
    const isMore = plan.peakBytes <= budgetBytes && Number.isFinite(availableBytes);
    return this.#report(plan, isMore ? Math.max(budgetBytes, availableBytes) : budgetBytes);
  }

  /**
   * Refuses a kind of request for which an empty device has no room.
   * @throws {RangeError} when the device cannot hold one of its tensors
   * @throws {OutOfMemoryError} with a table of what is needed, when the memory does not suffice
   */
  async check(
    kind: RequestKind<Session>,
    room: PlanRoom,
    options: MemoryOptions = {},
  ): Promise<void> {
    const found = await this.#choose(kind, room, options);
    if (!found.fits) throw this.#refusal(`Cannot ${kind.subject}`, kind.advice, found);
  }

  /** Frees the sessions where all but the weights takes more than this many bytes on the device. */
  release(bytes: number): void {
    const weights = this.#weights().filter((weight) => weight.isAllocated);
    if (this.device.allocatedBytes - bytesOf(weights) > bytes) this.#sessions.clear();
  }

  drop(): void {
    this.#sessions.clear();
    this.#loras.destroy();
  }

  #dropIdle(): boolean {
    let had = this.#sessions.clear();
    while (this.#loras.dropOldest()) had = true;
    return had;
  }

  [Symbol.dispose](): void {
    this.drop();
    for (const weights of Object.values(this.#components)) weights.destroy();
  }

  /** The first of several kinds that can be made, or the last. */
  async #firstThatFits(
    [kind, ...others]: readonly RequestKind<Session>[],
  ): Promise<Planned & { readonly fits: boolean }> {
    try {
      const found = await this.#choose(kind!);
      if (found.fits || others.length === 0) return found;
    } catch (error) {
      if (others.length === 0 || !(error instanceof RangeError)) throw error;
    }
    return await this.#firstThatFits(others);
  }

  async #wantedBetweenRequests({ plan, budgetBytes }: Planned): Promise<ReadonlySet<DeviceTensor>> {
    if (!plan.isTogether) return plan.kept;
    const { waiting = new Set() } = this.#options;
    const likely = Object.entries(this.#components).filter(([name]) => !waiting.has(name));
    const all = new Set(likely.flatMap(([, weights]) => [...weights.deviceTensors]));
    const bytes = plan.peakBytes + bytesOf(all) - bytesOf(plan.kept);
    const hasRoom = bytes <= Math.max(budgetBytes, await this.#budget(bytes));
    return hasRoom ? all : plan.kept;
  }

  /**
   * The best variant that the device can hold, or of those that do not fit the smallest.
   * @throws {RangeError} when there is none
   */
  async #choose(
    kind: RequestKind<Session>,
    { measure, hostBytes = 0 }: Pick<PlanRoom, "measure" | "hostBytes"> = this.#room(),
    { offloaded = new Set() }: MemoryOptions = this.#options,
  ): Promise<Choice<Session> & Planned & { readonly fits: boolean }> {
    const { variants } = kind;
    const plan = (variant: Variant, session: Session, budgetBytes: number) => ({
      variant,
      session,
      plan: session.runner.plan({ budgetBytes, offloaded }),
    });
    const { session, index } = firstTraced(kind);
    const first = plan(variants[index]!, session, Infinity);
    const budgetBytes = await measure(first.plan.peakBytes);
    if (first.plan.peakBytes <= budgetBytes) return { ...first, fits: true, budgetBytes };
    const choices: Choice<Session>[] = [];
    for (const side of new Set(variants.map(({ tileSide }) => tileSide))) {
      const all = variants.slice(index).filter(({ tileSide }) => tileSide === side)
        .flatMap((variant) => {
          const other = variant === variants[index] ? session : traceWithin(kind, variant);
          return other instanceof TensorLimitError ? [] : [plan(variant, other, budgetBytes)];
        })
        .filter((choice) => bytesOf(choice.plan.waiting) <= hostBytes);
      const fitting = all.filter((choice) => choice.plan.peakBytes <= budgetBytes);
      if (fitting.length > 0) return { ...bestOf(fitting), fits: true, budgetBytes };
      choices.push(...all);
    }
    return { ...least(choices, (choice) => choice.plan.peakBytes), fits: false, budgetBytes };
  }

  #room(): Pick<PlanRoom, "measure" | "hostBytes"> {
    return { measure: (bytes) => this.#budget(bytes), hostBytes: hostRoom(this.device) };
  }

  /** Bytes that this model may take, up to `wantedBytes`: those that its weights have already are among them. */
  async #budget(wantedBytes: number): Promise<number> {
    const held = bytesOf(this.#weights().filter((weight) => weight.isAllocated));
    return held + await measureMemory(this.device, wantedBytes - held);
  }

  async #makeRoom({ stages, peakBytes }: ResidencyPlan): Promise<void> {
    const planned = new Set(stages.flatMap(({ weights, streamed }) => [...weights, ...streamed]));
    const others = this.#weights().filter((weight) => weight.isAllocated && !planned.has(weight));
    const bytes = peakBytes + bytesOf(others);
    if (bytes <= await this.#budget(bytes)) return;
    this.#sessions.clear();
    for (const weight of others) weight.destroy();
  }

  #pin({ stages, kept, waiting }: ResidencyPlan): void {
    const leaving = new Set(
      stages.flatMap(({ weights, streamed }) => [...weights, ...streamed])
        .filter((weight) => !kept.has(weight) && !waiting.has(weight)),
    );
    for (const weight of this.#weights()) if (!leaving.has(weight)) weight.unpin();
    this.#pinAll([...leaving], bytesOf(waiting));
  }

  #pinAll(weights: readonly DeviceTensor[], otherBytes = 0): void {
    const missing = weights.filter((weight) => !weight.isPinned);
    const available = freeHostBytes();
    if (bytesOf(missing) + otherBytes > available * HOST_SHARE) {
      this.#options.onNote?.(
        `Weights are read from the file each time: copies of them in host memory would take ${
          megabytes(bytesOf(missing))
        }, ${megabytes(available)} are free`,
      );
      return;
    }
    for (const weight of missing) weight.pin();
  }

  #weights(): DeviceTensor[] {
    return Object.values(this.#components).flatMap((weights) => [...weights.deviceTensors]);
  }

  #report(plan: ResidencyPlan, budgetBytes: number): MemoryReport {
    return describeMemory(plan, this.#components, budgetBytes);
  }

  #refusal(
    problem: string,
    advice: string,
    { plan, budgetBytes }: Planned,
  ): OutOfMemoryError {
    return new OutOfMemoryError(
      `${problem}: it needs ${megabytes(plan.peakBytes)} on the device, ${
        megabytes(budgetBytes, Math.floor)
      } may be taken; allow more memory, or ${advice}\n${
        memoryTable(this.#report(plan, budgetBytes))
      }`,
      plan.peakBytes,
      budgetBytes,
    );
  }
}

function traceWithin<Session>(
  { trace }: RequestKind<Session>,
  variant: Variant,
): Session | TensorLimitError {
  try {
    return trace(variant);
  } catch (error) {
    if (error instanceof TensorLimitError) return error;
    throw error;
  }
}

function firstTraced<Session>(
  kind: RequestKind<Session>,
): { readonly session: Session; readonly index: number } {
  let refusal: TensorLimitError | undefined;
  for (const [index, variant] of kind.variants.entries()) {
    const session = traceWithin(kind, variant);
    if (!(session instanceof TensorLimitError)) return { session, index };
    refusal = session;
  }
  throw new RangeError(
    `Cannot ${kind.subject}: ${refusal!.excess}; ${kind.advice}`,
    { cause: refusal },
  );
}

/** Part of the free host memory that copies of weights, and results, may take. */
const HOST_SHARE = 0.8;

/** Of variants that fit the best; computing again takes longer than anything that is brought to the device again. */
function bestOf<Session>(fitting: readonly Choice<Session>[]): Choice<Session> {
  const others = fitting.filter(({ variant }) => variant.passes !== "recomputed");
  const best = others.length > 0 ? others : fitting;
  return best.find(({ plan }) => plan.isTogether) ?? least(best, ({ plan }) => plan.reloadedBytes);
}

function least<T>(items: readonly T[], cost: (item: T) => number): T {
  return items.reduce((best, item) => (cost(item) < cost(best) ? item : best));
}

function megabytes(bytes: number, round: (value: number) => number = Math.ceil): string {
  return `${round(bytes / 1e6)} MB`;
}
