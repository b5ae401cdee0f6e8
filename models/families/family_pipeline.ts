/** What the pipelines of all families do alike: memory, adapters, timings, and what becomes of failures. */
import type { Device, Target } from "../../runtime/mod.ts";
import { AdaptedComponent } from "../adapters/adapted_component.ts";
import type { AdaptableComponent, AppliedAdapter } from "../adapters/types.ts";
import type { MemoryReport } from "../memory/memory_report.ts";
import { type Candidates, type MemoryOptions, ModelMemory } from "../memory/model_memory.ts";
import type { PlannedSession } from "../memory/session_cache.ts";
import { OverflowError } from "../non_finite.ts";
import type {
  Pipeline,
  PipelineControl,
  PipelineInfo,
  PipelineRequest,
  PipelineResult,
  PlanRequest,
} from "../pipeline.ts";
import { PromptCache } from "../prompt_cache.ts";
import type { Schedule } from "../schedulers/mod.ts";
import { checkRequest } from "./check_request.ts";
import { componentsOf, type FamilyComponents } from "./family_components.ts";
import type { RequestWork, Results } from "./request_work.ts";

/** Tokens that prompts are cut to unless a request says otherwise, as in the reference's pipelines. */
const MAX_SEQUENCE_LENGTH = 512;

/** What a family is to the outside. */
export interface FamilyTraits<Components> {
  /** As adapters call the transformer, and other namings of its modules. */
  readonly transformer: Pick<AdaptableComponent, "family" | "layouts">;
  /** As adapters call the text encoder. */
  readonly textEncoder: string;
  /** What the pipeline says of itself. */
  readonly info: (
    components: Components,
    className: string,
    adaptable: PipelineInfo["adaptable"],
  ) => PipelineInfo;
}

/** Requests that share their programs. */
export interface RequestKind<Session> {
  /** Equal for requests of a kind. */
  readonly key: string;
  readonly schedule: Schedule;
  readonly candidates: Candidates<Session>;
  /** For when none of them fits; see {@linkcode ModelMemory.sessionFor}. */
  readonly words: { readonly subject: string; readonly advice: string };
}

/** How long the prompts of a request are. */
export interface PromptSizes {
  /** Tokens of each. */
  readonly lengths: readonly number[];
  /** Tokens that longer ones are cut to. */
  readonly maxLength: number;
}

/** What sessions of all families are made for, beside sizes, steps and prompts. */
export interface CommonShape {
  /** Whether unfinished samples can be shown. */
  readonly hasPreviews: boolean;
  /** Narrowest operands of the transformer's programs; the target's when left out. */
  readonly operands?: Target["operands"];
}

/** See the file comment; a family says what its requests are and how they run. */
export abstract class FamilyPipeline<
  Components extends FamilyComponents,
  Session extends PlannedSession,
> implements Pipeline {
  readonly info: PipelineInfo;
  protected readonly components: Components;
  readonly #memory: ModelMemory<Session>;
  readonly #encoded = new PromptCache();
  /** Whether narrow factors have given values that are not numbers. */
  #overflows = false;

  /**
   * @param components the pipeline's from here on; nothing of them is on the device yet
   * @param className as `model_index.json` names it
   */
  constructor(components: Components, className: string, traits: FamilyTraits<Components>) {
    this.components = components;
    this.#memory = new ModelMemory(componentsOf(components), [
      new AdaptedComponent(components.transformer.weights, {
        target: "transformer",
        ...traits.transformer,
      }),
      new AdaptedComponent(components.textEncoder.weights, {
        target: "text_encoder",
        family: traits.textEncoder,
        layouts: [],
      }),
    ]);
    this.info = traits.info(components, className, this.#memory.adaptable);
  }

  /** Traces something that uses all weights that any request does, which declares them; gives the smallest request. */
  protected abstract traceSmallest(target: Target): Candidates<Session>;

  /**
   * Checks what {@linkcode checkRequest} does not know of.
   *
   * @throws {RangeError} when the request does not fit the model
   */
  protected abstract check(request: PipelineRequest): void;

  /**
   * The request that a plan is made for.
   *
   * @param asked what a request that says nothing else asks for
   * @param size what was said
   * @throws {RangeError} when it does not fit the model, as far as {@linkcode checkRequest} does not know
   */
  protected abstract planned(asked: PipelineRequest, size: PlanRequest): PipelineRequest;

  /** Every prompt that is encoded, as the tokenizer takes it. */
  protected abstract promptsOf(request: PipelineRequest): string[];

  /** The kind that a request is of. */
  protected abstract kindOf(
    target: Target,
    request: PipelineRequest,
    prompts: PromptSizes,
    common: CommonShape,
  ): RequestKind<Session>;

  /**
   * Draws noise, and runs everything.
   *
   * @param work whose `lap` is told `prepare`, `encode`, `denoise` and `decode`
   * @param result filled on the way
   */
  protected abstract run(work: RequestWork<Components, Session>, result: Results): Promise<void>;

  /** Declares the weights that requests can need, and uploads those that the likeliest request leaves there. */
  async load(
    device: Device,
    onProgress?: (fraction: number) => void,
    options: MemoryOptions = {},
  ): Promise<void> {
    const smallest = this.traceSmallest(device.target);
    const likeliest = this.#largestKind(device, this.#usual());
    await this.#memory.load(device, [likeliest.candidates, smallest], options, onProgress);
  }

  /** @inheritdoc */
  async plan(
    device: Device,
    size: PlanRequest,
    options: MemoryOptions = {},
  ): Promise<MemoryReport> {
    const asked = { ...this.#usual(), ...size };
    checkRequest(asked, this.info);
    const { candidates } = this.#largestKind(device, this.planned(asked, size));
    return await this.#memory.report(device, candidates, options);
  }

  /** What a request that says nothing asks for. */
  #usual(): PipelineRequest {
    const { defaults, defaultTask, taskDefaults } = this.info;
    return { ...defaults, ...taskDefaults[defaultTask], task: defaultTask, prompt: "", seed: 0 };
  }

  /** Of such requests those with the longest prompts. */
  #largestKind({ target }: Device, request: PipelineRequest): RequestKind<Session> {
    const maxLength = MAX_SEQUENCE_LENGTH;
    const lengths = this.promptsOf(request).map(() => maxLength);
    return this.kindOf(target, request, { lengths, maxLength }, this.#commonShape(request, {}));
  }

  #commonShape({ quality }: PipelineRequest, { previews = 0 }: PipelineControl): CommonShape {
    return {
      hasPreviews: previews > 0,
      ...(quality === "high" && !this.#overflows && { operands: "int8" }),
    };
  }

  /** Frees the device memory and closes the files. */
  [Symbol.dispose](): void {
    this.#memory[Symbol.dispose]();
    this.components[Symbol.dispose]();
  }

  /** @inheritdoc */
  async prepare(adapters: readonly AppliedAdapter[]): Promise<void> {
    await this.#memory.adapt(adapters);
  }

  /** @inheritdoc */
  release(bytes: number): void {
    this.#memory.release(bytes);
  }

  /** @inheritdoc */
  async generate(request: PipelineRequest, control: PipelineControl = {}): Promise<PipelineResult> {
    const { device } = this.#memory;
    checkRequest(request, this.info);
    this.check(request);
    const startTime = performance.now();
    await this.#memory.adapt(request.adapters ?? []);
    try {
      return await this.#generate(device, request, control, startTime);
    } catch (error) {
      // What failed on the GPU may have left invalid buffers behind: the next request starts from new ones.
      const isCancelled = error instanceof DOMException && error.name === "AbortError";
      if (!isCancelled) this.#memory.drop();
      if (!(error instanceof OverflowError)) throw error;
      if (request.adapters?.length) {
        // What adapters make of the weights says nothing of requests without them.
        control.onNote?.(
          "The transformer's values overflow with narrow factors and these adapters: this request is computed with f32",
        );
        return await this.generate({ ...request, quality: "exact" }, control);
      }
      this.#overflows = true;
      control.onNote?.(
        "The transformer's values overflow with narrow factors: quality high computes it with f32 from now on",
      );
      return await this.generate(request, control);
    }
  }

  async #generate(
    device: Device,
    request: PipelineRequest,
    control: PipelineControl,
    startTime: number,
  ): Promise<PipelineResult> {
    const timings: Record<string, number> = { prepare: 0, encode: 0, denoise: 0, decode: 0 };
    let last = startTime;
    const lap = (stage: string) => {
      const now = performance.now();
      timings[stage]! += now - last;
      last = now;
    };
    const { components } = this;
    const maxLength = request.maxSequenceLength ?? MAX_SEQUENCE_LENGTH;
    control.onTokenizing?.(false);
    const tokens = this.promptsOf(request)
      .map((prompt) => components.tokenizer.encode(prompt, { maxLength }));
    control.onTokenizing?.(true);
    const prompts = { lengths: tokens.map(({ length }) => length), maxLength };
    const common = this.#commonShape(request, control);
    const kind = this.kindOf(device.target, request, prompts, common);
    const { schedule } = kind;
    const session = await this.#memory.sessionFor(kind.key, kind.candidates, kind.words, control);
    const encoded = this.#encoded;
    const result: Results = { latents: new Float32Array(), frames: [] };
    await this.run(
      { device, components, session, request, schedule, tokens, maxLength, encoded, control, lap },
      result,
    );
    return { ...result, timings };
  }
}
