/** The LoRAs of a loaded model: what a request asks for, brought about and kept for the next time. */
import { type Device, OutOfMemoryError } from "../../runtime/mod.ts";
import type { AdaptedComponent, PackedLayers } from "./adapted_component.ts";
import type { ComponentPlan } from "./plan.ts";
import type { AdaptableComponent, AppliedLora } from "./types.ts";

/** Device memory that branches may take which are not in use. */
const MAX_IDLE_BYTES = 1024 ** 3;

interface Variant {
  readonly key: string;
  readonly packed: readonly PackedLayers[];
  readonly byteLength: number;
  readonly hasDecoded: boolean;
  /** Strengths by component, as they were last written. */
  strengths: readonly (readonly number[])[];
}

const BASE_KEY = "";

export class DeviceLoras {
  readonly #components: readonly AdaptedComponent[];
  readonly #dropPrograms: (key: string) => void;
  readonly #maxIdleBytes: number;
  readonly #variants = new Map<string, Variant>();
  #current: string = BASE_KEY;

  /** `dropPrograms` frees those that were traced under a key; `maxIdleBytes` are for branches out of use. */
  constructor(
    components: readonly AdaptedComponent[],
    dropPrograms: (key: string) => void,
    maxIdleBytes: number = MAX_IDLE_BYTES,
  ) {
    this.#components = components;
    this.#dropPrograms = dropPrograms;
    this.#maxIdleBytes = maxIdleBytes;
  }

  get key(): string {
    return this.#current;
  }

  get adaptable(): AdaptableComponent[] {
    return this.#components.filter(({ isFree }) => isFree).map(({ info }) => info);
  }

  /** Makes the model what it is with these LoRAs and no others. When it fails, the next call makes it right again. */
  async apply(loras: readonly AppliedLora[], device: Device): Promise<void> {
    const plans = this.#components.map((component) => component.plan(loras));
    const keys = plans.map(({ key }) => key);
    const key = keys.every((key) => key === "") ? BASE_KEY : JSON.stringify(keys);
    if (key !== this.#current && this.#variants.get(this.#current)?.hasDecoded) {
      // Its programs read weights that are about to be freed.
      this.#drop(this.#current);
    }
    const variant = this.#variants.get(key) ?? await this.#upload(key, plans, device);
    this.#variants.delete(key);
    this.#variants.set(key, variant);
    this.#current = key;
    try {
      for (const [i, component] of this.#components.entries()) {
        await component.write(plans[i]!, device);
        component.use(variant.packed[i]!);
      }
    } catch (error) {
      // Weights that its programs read may be gone.
      this.#drop(key);
      throw error;
    }
    this.#writeStrengths(variant, plans.map(({ strengths }) => strengths));
  }

  dropOldest(): boolean {
    for (const key of this.#variants.keys()) {
      if (key === this.#current || key === BASE_KEY) continue;
      this.#drop(key);
      return true;
    }
    return false;
  }

  destroy(): void {
    for (const key of this.#variants.keys()) this.#drop(key);
    for (const component of this.#components) component.use(new Map());
  }

  async #upload(
    key: string,
    plans: readonly ComponentPlan[],
    device: Device,
  ): Promise<Variant> {
    const packed = this.#components.map((component, i) => component.pack(plans[i]!));
    const layers = packed.flatMap((layers) => [...layers.values()]);
    const byteLength = layers.reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.#makeRoom(byteLength, device);
    while (this.#idleBytes > this.#maxIdleBytes && this.dropOldest());
    const scratch = new ArrayBuffer(
      layers.reduce((most, { scratchBytes }) => Math.max(most, scratchBytes), 0),
    );
    try {
      await device.guarded(() => {
        for (const layer of layers) layer.upload(device, scratch);
        device.flush();
      });
    } catch (error) {
      for (const layer of layers) layer.destroy();
      throw error;
    }
    const hasDecoded = plans.some(({ hasDecoded }) => hasDecoded);
    return { key, packed, byteLength, hasDecoded, strengths: [] };
  }

  #makeRoom(bytes: number, device: Device): void {
    const isTight = () => bytes > device.availableBytes;
    while (isTight() && this.dropOldest());
    if (isTight()) this.#variants.forEach(({ key }) => this.#dropPrograms(key));
    if (!isTight()) return;
    throw new OutOfMemoryError(
      `Cannot use LoRAs: beside the weights they take ${Math.ceil(bytes / 1e6)} MB, ${
        Math.floor(device.availableBytes / 1e6)
      } MB are left on the device; use fewer, merge them, or allow more memory`,
      bytes,
      device.availableBytes,
    );
  }

  get #idleBytes(): number {
    return this.#variants.values().reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  #writeStrengths(variant: Variant, strengths: readonly (readonly number[])[]): void {
    for (const [i, layers] of variant.packed.entries()) {
      if (variant.strengths[i]?.every((value, k) => Object.is(value, strengths[i]![k]))) continue;
      for (const layer of layers.values()) layer.writeStrengths(strengths[i]!);
    }
    variant.strengths = strengths;
  }

  #drop(key: string): void {
    this.#dropPrograms(key);
    for (const layers of this.#variants.get(key)!.packed) {
      for (const layer of layers.values()) layer.destroy();
    }
    this.#variants.delete(key);
  }
}
