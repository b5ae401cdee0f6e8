/** Errors on their way from the worker: structured cloning keeps neither their classes nor their own fields. */
import { LoraError } from "../models/lora/lora_error.ts";
import {
  DeviceLostError,
  GpuValidationError,
  NoAdapterError,
  OutOfMemoryError,
} from "../runtime/errors.ts";

/** What is sent in place of an error. */
export interface ErrorRecord {
  /** Name of the error's class. */
  readonly name: string;
  /** The error's message, as thrown. */
  readonly message: string;
  /** Stack of the worker where the error was thrown, for the log. */
  readonly stack?: string;
  /** Bytes that were asked for, of an `OutOfMemoryError`. */
  readonly requestedBytes?: number;
  /** Bytes that there are, of an `OutOfMemoryError`. */
  readonly availableBytes?: number;
  /** What is wrong with the file, of a `LoraError`. */
  readonly problems?: readonly string[];
}

const CLASSES: Readonly<Record<string, new (message: string) => Error>> = {
  RangeError,
  TypeError,
  SyntaxError,
  DeviceLostError,
  GpuValidationError,
  NoAdapterError,
};

/** What to send for whatever was thrown. */
export function toErrorRecord(thrown: unknown): ErrorRecord {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const { name, message, stack } = error;
  return {
    name,
    message,
    ...(stack === undefined ? {} : { stack }),
    ...(error instanceof OutOfMemoryError
      ? { requestedBytes: error.requestedBytes, availableBytes: error.availableBytes }
      : {}),
    ...(error instanceof LoraError ? { problems: error.problems } : {}),
  };
}

/** The error of its class again: callers tell bad requests from defects by it. */
export function fromErrorRecord(record: ErrorRecord): Error {
  const { name, message, stack, requestedBytes = 0, availableBytes = 0, problems } = record;
  if (name === "AbortError") return new DOMException(message, name);
  const Class = Object.hasOwn(CLASSES, name) ? CLASSES[name]! : Error;
  const error: Error = name === "OutOfMemoryError"
    ? new OutOfMemoryError(message, requestedBytes, availableBytes)
    : name === "LoraError"
    ? new LoraError(message, problems)
    : new Class(message);
  if (error.name !== name) error.name = name;
  if (stack !== undefined) error.stack = stack;
  return error;
}
