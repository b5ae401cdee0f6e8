/**
 * GPU compute: devices, tensors, ops traced into programs, and weights. Knows nothing of diffusion.
 *
 * @module
 */
export type { BackendChoice, GpuBackend } from "./device/backends/backend.ts";
export { compileInTurn, compileKernels, kernelCodes } from "./program/compile.ts";
export { type CompileHelpers, type KernelCode, Turns } from "./device/compile_helpers.ts";
export * from "./device/device.ts";
export * from "./dtype.ts";
export * from "./errors.ts";
export type { PreparedExchange } from "./program/run_exchange.ts";
export * from "./graph/graph.ts";
export { HostResult } from "./program/host_result.ts";
export { freeHostBytes, usableHostBytes } from "./device/host_memory.ts";
export { estimateExchange, type ExchangedBytes } from "./team/measure_exchange.ts";
export { measureMemory } from "./device/measure_memory.ts";
export type { AdapterEnvironment } from "./device/adapter_environment.ts";
export * from "./open_device.ts";
export { Pacer } from "./device/pacer.ts";
export {
  type MemoryPlan,
  mergePlans,
  planMemory,
  type PlannedDispatch,
  type PlannedProgram,
  planSlabs,
} from "./program/plan.ts";
export * from "./program/program.ts";
export { profileProgram, type ProfileRow } from "./program/profile.ts";
export {
  Executable,
  ExecutableSet,
  instantiate,
  type PreparedDispatch,
} from "./program/executable.ts";
export type { BlockFormat, WeightFormat } from "./quantization/block_format.ts";
export { blockBytes, dequantize, isWeightFormat, type Room } from "./quantization/formats.ts";
export { DeviceTensor, type DeviceTensorSource } from "./device/device_tensor.ts";
export { Saturation, SaturationError } from "./graph/saturation.ts";
export type { Segment, SlabRange, StreamingOptions } from "./program/segments.ts";
export type { BufferSlot, Kernel, ParamType, SlotPlace, WgslDialect } from "./shaders/kernel.ts";
export { type RunControl, throwIfCancelled } from "./run_control.ts";
export * from "./shape.ts";
export * from "./team/shared_team.ts";
export * from "./target.ts";
export * from "./team/team.ts";
export * from "./graph/tensor.ts";
export {
  type AdapterKey,
  adapterKey,
  kernelSetVersion,
  type TuningKey,
} from "./tuning/kernel_set.ts";
export type { Race, RaceInput } from "./ops/op.ts";
export * from "./tuning/tune.ts";
export { readTuning, type TuningRecord, writeTuning } from "./tuning/tuning_file.ts";
export * from "./program/work_queue.ts";
export { allocatedBytes, type BufferWindow } from "./windows.ts";
export type { FileSource, HostMemory } from "../platform/mod.ts";
export * from "./ops/mod.ts";
export * from "./weights/adaptation.ts";
export * from "./weights/checkpoint.ts";
export type { StoredPart } from "./weights/fill_weight.ts";
export type { WeightLayout } from "./weights/storage.ts";
export { quantize } from "./quantization/encode/mod.ts";
export {
  type FileLayout,
  type NewTensor,
  storedBytes,
  type StoredTensor,
  type TensorEntry,
  type TensorSource,
} from "./weights/container.ts";
export { layOutGguf } from "./weights/gguf_writer.ts";
export { blockFormatOf, elementTypeOf } from "./weights/storage.ts";
export type { GgufValue } from "./weights/gguf_types.ts";
export { readTensorHeader } from "./weights/file_header.ts";
export * from "./weights/low_rank_factors.ts";
export * from "./weights/safetensors.ts";
export * from "./weights/weight_scope.ts";
export * from "./weights/weights.ts";
