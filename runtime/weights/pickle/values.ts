/** What a pickle of PyTorch is made of, as data: nothing in it is ever run. */
import type { Shape } from "../../shape.ts";

/** A name that the pickle refers to: a class or a function of Python. */
export interface PickleGlobal {
  readonly kind: "global";
  /** Module and name, such as `torch.FloatStorage`. */
  readonly name: string;
}

/** An object of a class that is known to be harmless and says nothing of tensors. */
export interface PickleObject {
  readonly kind: "object";
  readonly name: string;
  state?: PickleValue;
}

/** Elements one after the other in the file. */
export interface TorchStorage {
  readonly kind: "storage";
  readonly key: string;
  /** In the spelling of the containers; nothing where each tensor of it says its own. */
  readonly format: string | undefined;
  /** Number of elements; of bytes where the format is not known. */
  readonly count: number;
}

/** A view of a storage. */
export interface TorchTensor {
  readonly kind: "tensor";
  readonly storage: TorchStorage;
  readonly format: string;
  /** In elements of the format. */
  readonly offset: number;
  readonly shape: Shape;
  readonly strides: readonly number[];
}

/** Lists, tuples and sets are arrays. */
export type PickleValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PickleValue[]
  | PickleMap
  | PickleGlobal
  | PickleObject
  | TorchStorage
  | TorchTensor;

/** A dict. Its keys are as the pickle has them. */
export class PickleMap extends Map<PickleValue, PickleValue> {}

/** Text of a file as a message can hold it. */
export function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

type Kind = "global" | "object" | "storage" | "tensor";

/** Whether a value is of a kind. */
export function isKind<Name extends Kind>(
  value: PickleValue | undefined,
  kind: Name,
): value is Extract<PickleValue, { readonly kind: Name }> {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === kind;
}
