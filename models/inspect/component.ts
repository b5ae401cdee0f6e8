/** What one component's weights are: how they are stored, and what they take. */
import {
  blockBytes,
  bytesPerElement,
  elementCount,
  isWeightFormat,
  storedBytes,
  type StoredTensor,
  type TensorSource,
} from "../../runtime/mod.ts";
import { storageOf } from "../../runtime/weights/storage.ts";

export interface FormatShare {
  /** The format as containers spell it, such as `Q4_K`. */
  readonly format: string;
  readonly tensors: number;
  readonly bytes: number;
}

export interface InspectedComponent {
  /** Name of the component in `model_index.json`, such as `transformer`. */
  readonly component: string;
  /** What the component is, such as `a Z-Image transformer`; its class where no file tells more. */
  readonly holds: string;
  /** The largest share of the bytes first. */
  readonly formats: readonly FormatShare[];
  /** Numbers of all tensors. */
  readonly parameters: number;
  readonly bytes: number;
  /** Bytes on the GPU, about; rows of embedding tables stay in the file. */
  readonly deviceBytes: number;
  /** Whether the program knows no way to read some tensors. */
  readonly hasUnreadFormats: boolean;
}

/** Tables whose rows are looked up in the file. */
const TABLE = /(?:^|\.)(?:embed_tokens|token_embd|token_embedding|shared)\.weight$/;

export function inspectTensors(
  component: string,
  holds: string,
  tensors: TensorSource,
): InspectedComponent {
  const shares = new Map<string, FormatShare>();
  let [parameters, bytes, deviceBytes] = [0, 0, 0];
  let hasUnreadFormats = false;
  for (const name of tensors.names) {
    const tensor = tensors.find(name)!;
    const format = tensor.storedAs ?? tensor.format;
    const byteLength = storedBytes(tensor);
    const share = shares.get(format) ?? { format, tensors: 0, bytes: 0 };
    shares.set(format, { format, tensors: share.tensors + 1, bytes: share.bytes + byteLength });
    parameters += elementCount(tensor.shape);
    bytes += byteLength;
    const onDevice = deviceBytesOf(tensor);
    hasUnreadFormats ||= onDevice === undefined;
    deviceBytes += TABLE.test(name) ? 0 : onDevice ?? 0;
  }
  const formats = [...shares.values()].sort((a, b) => b.bytes - a.bytes);
  return { component, holds, formats, parameters, bytes, deviceBytes, hasUnreadFormats };
}

/** Nothing of formats that are not read; numbers beside weights, such as positions, are not uploaded. */
function deviceBytesOf({ format, shape }: StoredTensor): number | undefined {
  if (/^(?:I|U)\d+$|^BOOL$/.test(format)) {
    return shape.length > 1 && format === "I8" ? undefined : 0;
  }
  const storage = storageOf(format, shape, "as-stored");
  if (storage === undefined) return undefined;
  return isWeightFormat(storage)
    ? blockBytes(shape, storage)
    : elementCount(shape) * bytesPerElement(storage);
}
