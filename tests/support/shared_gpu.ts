/**
 * Devices that share what was compiled.
 *
 * A software driver takes longer to compile the kernels of a small model than to run them, and most tests want a device
 * of their own. Here each gets one in name, with its own buffers, while all tests of a file compile a kernel once.
 */

/** Pipelines that are kept, those used last: a software driver takes 2 to 4 MB for each. */
const KEPT_PIPELINES = 256;

/** A device that many use, and what was compiled on it. */
interface Shared {
  readonly device: GPUDevice;
  readonly modules: WeakMap<GPUShaderModule, string>;
  readonly bindGroupLayouts: WeakMap<GPUBindGroupLayout, string>;
  readonly pipelineLayouts: WeakMap<GPUPipelineLayout, string>;
  /** By what they were made of; the one used last is the last. */
  readonly pipelines: Map<string, GPUComputePipeline>;
}

const shared = new Map<string, Promise<Shared>>();

/** A GPU that opens a device once for each set of options, and gives out views of it. */
export function shareDevices(name: string, gpu: GPU): GPU {
  const requestAdapter = async (options?: GPURequestAdapterOptions) => {
    const adapter = await gpu.requestAdapter(options);
    if (!adapter) return null;
    const requestDevice = async (descriptor?: GPUDeviceDescriptor) => {
      const key = JSON.stringify([name, options, descriptor]);
      if (!shared.has(key)) shared.set(key, open(adapter, descriptor));
      return viewOf(await shared.get(key)!);
    };
    return overriding(adapter, { requestDevice });
  };
  return overriding(gpu, { requestAdapter });
}

async function open(adapter: GPUAdapter, descriptor?: GPUDeviceDescriptor): Promise<Shared> {
  return {
    device: await adapter.requestDevice(descriptor),
    modules: new WeakMap(),
    bindGroupLayouts: new WeakMap(),
    pipelineLayouts: new WeakMap(),
    pipelines: new Map(),
  };
}

/** A device whose buffers, listeners and end are its own. */
function viewOf(source: Shared): GPUDevice {
  const { device } = source;
  const buffers = new Set<GPUBuffer>();
  const lost = Promise.withResolvers<GPUDeviceLostInfo>();
  const ended = new AbortController();
  return overriding(device, {
    lost: lost.promise,
    createBuffer(descriptor: GPUBufferDescriptor) {
      const buffer = device.createBuffer(descriptor);
      buffers.add(buffer);
      return buffer;
    },
    // Made when a pipeline needs it.
    createShaderModule({ code }: GPUShaderModuleDescriptor) {
      const module = {} as GPUShaderModule;
      source.modules.set(module, code);
      return module;
    },
    createBindGroupLayout(descriptor: GPUBindGroupLayoutDescriptor) {
      const layout = device.createBindGroupLayout(descriptor);
      source.bindGroupLayouts.set(layout, JSON.stringify(descriptor.entries));
      return layout;
    },
    createPipelineLayout(descriptor: GPUPipelineLayoutDescriptor) {
      const layout = device.createPipelineLayout(descriptor);
      const groups = [...descriptor.bindGroupLayouts].map((group) =>
        group && source.bindGroupLayouts.get(group)
      );
      source.pipelineLayouts.set(layout, JSON.stringify(groups));
      return layout;
    },
    createComputePipeline: (descriptor: GPUComputePipelineDescriptor) =>
      pipelineOf(source, descriptor),
    addEventListener(name: "uncapturederror", listener: (event: Event) => void) {
      device.addEventListener(name, listener, { signal: ended.signal });
    },
    destroy() {
      ended.abort();
      for (const buffer of buffers) buffer.destroy();
      buffers.clear();
      lost.resolve({ reason: "destroyed", message: "" } as GPUDeviceLostInfo);
    },
  });
}

function pipelineOf(source: Shared, descriptor: GPUComputePipelineDescriptor): GPUComputePipeline {
  const { device, modules, pipelineLayouts, pipelines } = source;
  const { compute, layout } = descriptor;
  const code = modules.get(compute.module)!;
  const key = JSON.stringify([
    code,
    compute.entryPoint,
    compute.constants,
    layout === "auto" ? layout : pipelineLayouts.get(layout),
  ]);
  const pipeline = pipelines.get(key) ?? device.createComputePipeline({
    ...descriptor,
    compute: {
      ...compute,
      module: device.createShaderModule({ label: descriptor.label ?? "", code }),
    },
  });
  pipelines.delete(key);
  pipelines.set(key, pipeline);
  const [oldest] = pipelines.keys();
  if (pipelines.size > KEPT_PIPELINES) pipelines.delete(oldest!);
  return pipeline;
}

/** An object with the members of another, but for some; what is set stays its own. */
function overriding<T extends object>(target: T, members: Partial<Record<keyof T, unknown>>): T {
  const own: Partial<Record<PropertyKey, unknown>> = members;
  return new Proxy(target, {
    get(_, key) {
      if (key in own) return own[key];
      const value = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
    set(_, key, value) {
      own[key] = value;
      return true;
    },
  });
}
