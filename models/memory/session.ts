/** The programs of one kind of request, traced stage by stage. Nothing is planned or allocated here. */
import {
  type CallValues,
  DeviceTensor,
  type DType,
  type Graph,
  type Inputs,
  Program,
  Saturation,
  type Shape,
  type Stored,
  type Target,
  type Traced,
} from "../../runtime/mod.ts";

import { ALONE, type Ranks } from "../sharing/ranks.ts";

/** What clients are told is going on. */
export type Phase = "encode" | "denoise" | "decode";

interface StageOptions {
  readonly name?: string;
  /** How often its programs run in a request, which is how often streamed weights are read; 1 by default. */
  readonly repeats?: number;
}

/** Programs whose weights are on the device at the same time; they need nothing of other stages but tensors. */
export class Stage {
  readonly name: string;
  readonly phase: Phase;
  /** How often its programs run in a request; raised by what traces a loop. */
  repeats: number;
  /** Under names that are unique in the session. */
  readonly programs = new Map<string, Program>();
  /** Inputs, results and state of its programs; those that no other stage uses live as long as it runs. */
  readonly tensors = new Set<DeviceTensor>();
  readonly reads: (readonly DeviceTensor[])[] = [];
  readonly #session: Session;

  /** Use {@linkcode Session.stage}. */
  constructor(session: Session, phase: Phase, { name = phase, repeats = 1 }: StageOptions) {
    this.name = name;
    this.phase = phase;
    this.repeats = repeats;
    this.#session = session;
  }

  get ranks(): Ranks {
    return this.#session.ranks;
  }

  /** Whether programs of its session round factors to f16. */
  get isRounding(): boolean {
    const { tensors, saturation } = this.#session;
    return tensors.has(saturation.counters);
  }

  get graphs(): Readonly<Record<string, Graph>> {
    return Object.fromEntries([...this.programs].map(([name, { graph }]) => [name, graph]));
  }

  /** Traces a program of this stage; `operands` are its products' narrowest factors, by default the target's. */
  program<const I extends Inputs, Output>(
    name: string,
    inputs: I,
    build: (inputs: Traced<I>, graph: Graph) => Output,
    { operands }: { readonly operands?: Target["operands"] | undefined } = {},
  ): Program<CallValues<I>, Stored<Output>> {
    const { target: own, tensors, saturation } = this.#session;
    const target = operands ? { ...own, operands } : own;
    const traced = new Program<CallValues<I>, Stored<Output>>(
      name,
      target,
      inputs,
      build,
      saturation,
    );
    const key = `${this.name}: ${name}`;
    if (this.programs.has(key)) {
      throw new TypeError(`Cannot trace program "${name}": stage "${this.name}" has one already`);
    }
    this.programs.set(key, traced);
    for (const tensor of traced.tensors) this.tensors.add(tensor);
    const { counters } = saturation;
    if (traced.graph.isCounting) tensors.add(counters);
    return traced;
  }

  /** State, or what calls write for several programs; it may be lost when another stage begins that does not use it. */
  tensor(name: string, shape: Shape, dtype: DType = "f32"): DeviceTensor {
    const tensor = new DeviceTensor(name, shape, dtype);
    this.tensors.add(tensor);
    return tensor;
  }

  keepTensors(): void {
    for (const tensor of this.tensors) this.#session.tensors.add(tensor);
    this.tensors.clear();
  }

  /** Says that these tensors are read back at the same time, which the plan counts; no others can be. */
  willRead(...tensors: DeviceTensor[]): void {
    this.reads.push(tensors);
  }
}

export class Session {
  readonly target: Target;
  readonly stages: Stage[] = [];
  /** What calls of one stage write for another, and the like: they live as long as the session. */
  readonly tensors = new Set<DeviceTensor>();
  /** Tiles, frames and prompts that a request encodes, for its progress. */
  encodeSteps = 0;
  /** What its programs count of factors beyond f16; the counters are among the tensors where a program rounds. */
  readonly saturation: Saturation;
  readonly ranks: Ranks;

  /** Starts without stages; factors of `wide` layers are not rounded to f16. */
  constructor(target: Target, wide?: ReadonlySet<string>, ranks = ALONE) {
    this.target = target;
    this.ranks = ranks;
    this.saturation = new Saturation(wide);
  }

  stage(phase: Phase, options: StageOptions = {}): Stage {
    const stage = new Stage(this, phase, options);
    if (this.stages.some(({ name }) => name === stage.name)) {
      throw new TypeError(`Cannot add stage "${stage.name}": there is one; give it another name`);
    }
    this.stages.push(stage);
    return stage;
  }

  get graphs(): Graph[] {
    return this.stages.flatMap(({ graphs }) => Object.values(graphs));
  }

  tensor(name: string, shape: Shape, dtype: DType = "f32"): DeviceTensor {
    const tensor = new DeviceTensor(name, shape, dtype);
    this.tensors.add(tensor);
    return tensor;
  }
}
