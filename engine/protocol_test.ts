import assert from "node:assert/strict";
import { LoraError } from "../models/lora/lora_error.ts";
import {
  DeviceLostError,
  GpuValidationError,
  NoAdapterError,
  OutOfMemoryError,
} from "../runtime/mod.ts";
import { SettingError } from "../models/setting_error.ts";
import { fromErrorRecord, toErrorRecord } from "./protocol.ts";

const cross = (thrown: unknown) => fromErrorRecord(structuredClone(toErrorRecord(thrown)));

Deno.test("fromErrorRecord() gives an error of the same class, message and stack", () => {
  const classes = [
    Error,
    RangeError,
    TypeError,
    SyntaxError,
    DeviceLostError,
    GpuValidationError,
    NoAdapterError,
  ];
  for (const Class of classes) {
    const error = new Class("Cannot go on: a reason");
    const revived = cross(error);
    assert.equal(revived.constructor, Class);
    assert.equal(revived.name, error.name);
    assert.equal(revived.message, error.message);
    assert.equal(revived.stack, error.stack);
  }
});

Deno.test("fromErrorRecord() keeps the bytes of an OutOfMemoryError, which is a RangeError", () => {
  const revived = cross(new OutOfMemoryError("Cannot allocate", 200, 100));
  assert.ok(revived instanceof OutOfMemoryError && revived instanceof RangeError);
  assert.deepEqual([revived.requestedBytes, revived.availableBytes], [200, 100]);
});

Deno.test("fromErrorRecord() gives a cancellation as the DOMException that it was", () => {
  const revived: unknown = cross(new DOMException("Cannot finish", "AbortError"));
  assert.ok(revived instanceof DOMException);
  assert.deepEqual([revived.name, revived.message], ["AbortError", "Cannot finish"]);
});

Deno.test("fromErrorRecord() gives errors of other classes and other values under their name", () => {
  const missing = cross(new Deno.errors.NotFound("no such file"));
  assert.deepEqual([missing.name, missing.message], ["NotFound", "no such file"]);
  assert.deepEqual([cross("text").name, cross("text").message], ["Error", "text"]);
});

Deno.test("fromErrorRecord() keeps the list of a LoraError", () => {
  const revived = cross(new LoraError("Cannot use it", ["a", "b"]));
  assert.ok(revived instanceof LoraError);
  assert.deepEqual(revived.problems, ["a", "b"]);
});

Deno.test("fromErrorRecord() keeps what a SettingError, which is a RangeError, is about", () => {
  const error = cross(new SettingError("stgBlocks", "no"));
  assert.ok(error instanceof SettingError && error instanceof RangeError);
  assert.deepEqual([error.name, error.message, error.setting], ["RangeError", "no", "stgBlocks"]);
});
