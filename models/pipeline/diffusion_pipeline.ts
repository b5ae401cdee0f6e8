/** The pipeline of any family: memory, LoRAs, prompts, timings, and what becomes of failures. */
import {
  compileKernels,
  type Device,
  type KernelCode,
  kernelCodes,
  type Target,
} from "../../runtime/mod.ts";
import { AdaptedComponent } from "../lora/adapted_component.ts";
import type { AdaptableComponent, AppliedLora, Lora } from "../lora/types.ts";
import { hasSide } from "../autoencoders/require_encoder.ts";
import { tileSides } from "../autoencoders/tiling.ts";
import type { ModelFiles } from "../checkpoints/model_files.ts";
import type { MemoryReport } from "../memory/memory_report.ts";
import {
  type MemoryOptions,
  ModelMemory,
  type PlanRoom,
  type RequestKind,
  type Variant,
} from "../memory/model_memory.ts";
import { Session } from "../memory/session.ts";
import { SessionRunner } from "../memory/session_runner.ts";
import { ALONE, isFirst, type Ranks } from "../sharing/ranks.ts";
import { checkInputs, checkSettings, INPUTS } from "./check_request.ts";
import {
  type Component,
  componentName,
  openParts,
  optionalPartsOf,
  type Parts,
} from "./components.ts";
import type { PromptTokens } from "./chunked_prompts.ts";
import { controlShape } from "./control_units.ts";
import { cutOf } from "./cut_prompts.ts";
import type { CommonShape, Family, Generate, PromptSizes } from "./family.ts";
import {
  completeInfo,
  declaringRequest,
  plannedRequest,
  smallestRequest,
  USUAL_SEQUENCE_LENGTH,
  usualRequest,
} from "./family_info.ts";
import { Finishing, finishingShape } from "./finishing.ts";
import { isInpainting } from "./inpainting.ts";
import { agreed, Operands } from "./operands.ts";
import { PromptCache } from "./prompt_cache.ts";
import type {
  CutPrompt,
  LoadOptions,
  Pipeline,
  PipelineControl,
  PipelineInfo,
  PipelineRequest,
  PipelineResult,
  PlanRequest,
} from "./types.ts";
import { type Attempt, Work } from "./work.ts";

/** Components that a request may do without. */
const STEERING = /^(?:controlnet|ip_?adapter|image_?encoder)/i;

/** Tokens of a prompt of one sentence. */
const SHORT_PROMPT = 12;

interface TracedRequest {
  readonly session: Session;
  readonly runner: SessionRunner;
  readonly generate: Generate;
  readonly finishing: Finishing | undefined;
}

/** Opens the pipeline of a family, to which the files belong from then on; nothing is on the device yet. */
export async function openFamily<P extends Parts, Own>(
  family: Family<P, Own>,
  files: ModelFiles,
  { ranks, embeddings, steersWhenAsked }: {
    readonly ranks?: Ranks | undefined;
    readonly embeddings?: string | undefined;
    readonly steersWhenAsked?: boolean | undefined;
  } = {},
): Promise<DiffusionPipeline<P, Own>> {
  const parts = await openParts(files, family.parts, embeddings) as unknown as P;
  return new DiffusionPipeline(family, parts, files.className, ranks, steersWhenAsked);
}

export class DiffusionPipeline<P extends Parts = Parts, Own = unknown> implements Pipeline {
  readonly info: PipelineInfo;
  readonly #family: Family<P, Own>;
  readonly #parts: P;
  readonly #memory: ModelMemory<TracedRequest>;
  readonly #critic: AdaptedComponent | undefined;
  readonly #encoded = new PromptCache();
  readonly #operands = new Operands();
  readonly #ranks: Ranks;
  readonly #usualLength: number;
  readonly #steersWhenAsked: boolean;

  constructor(
    family: Family<P, Own>,
    parts: P,
    className: string,
    ranks = ALONE,
    steersWhenAsked = false,
  ) {
    this.#ranks = ranks;
    this.#steersWhenAsked = steersWhenAsked;
    this.#family = family;
    this.#parts = parts;
    const { adapted, critic } = adaptedParts(parts, family.lora);
    this.#memory = new ModelMemory(parts.components, adapted);
    this.#critic = critic;
    const precision = ({ weights }: Component) => weights.mainFormat.toLowerCase();
    const { usualSequenceLength = USUAL_SEQUENCE_LENGTH, ...said } = family.info(parts);
    const info = completeInfo(said);
    this.#usualLength = Math.min(usualSequenceLength, info.maxSequenceLength);
    const fromText = info.supportedTasks.filter((task) => INPUTS[task] === "text");
    const lacksEncoder = !hasSide(parts.vae.weights, "encoder") &&
      fromText.includes(info.defaultTask);
    this.info = {
      ...info,
      lacksEncoder,
      supportedTasks: lacksEncoder ? fromText : info.supportedTasks,
      // A sampler that a family names has sigmas of its own.
      defaults: info.defaults.sampler
        ? info.defaults
        : { ...info.defaults, ...parts.scheduler.own },
      sampling: parts.scheduler.choices,
      className,
      weightBytes: Object.values(parts.components)
        .reduce((sum, weights) => sum + weights.storedBytes, 0),
      precisions: {
        transformer: precision(parts.transformer),
        vae: precision(parts.vae),
        textEncoder: precision(parts.textEncoder3 ?? parts.textEncoder2 ?? parts.textEncoder),
      },
      optionalParts: optionalPartsOf(parts),
      ...(parts.upscaler && {
        upscalerScale: parts.upscaler.config.scale,
        upscaler: componentName(parts.upscaler.path),
      }),
      ...(family.chunkedPrompts && { embeddings: knownEmbeddings(parts) }),
    };
  }

  get adaptable(): AdaptableComponent[] {
    return [...this.#memory.adaptable, ...(this.#critic ? [this.#critic.info] : [])];
  }

  /** Declares the weights that requests can need, and uploads those that the likeliest request leaves there. */
  async load(
    device: Device,
    onProgress?: (fraction: number) => void,
    options: LoadOptions = {},
  ): Promise<void> {
    const { target } = device;
    const { supportedTasks, defaultTask } = this.info;
    const ofRequest = (request: PipelineRequest) =>
      this.#kindWithPrompts(target, request, { tokens: 1, maxLength: 1 });
    // Tracing declares weights: a request from every kind of input uses all that any request does.
    for (const task of new Map(supportedTasks.map((task) => [INPUTS[task], task])).values()) {
      const { trace, variants } = ofRequest(declaringRequest(this.info, task));
      trace(variants[0]);
    }
    // Of several GPUs that share the layers, each declares its own.
    if (!this.#ranks.layers) this.#parts.transformer.weights.refuseMoreBlocks();
    const { referenceSide: _, ...plain } = { ...this.info, controlNets: [] };
    const likely = this.#steersWhenAsked ? plain : this.info;
    const kinds = [
      this.#kindWithPrompts(target, usualRequest(likely)),
      ofRequest(smallestRequest(likely, defaultTask)),
    ];
    const waiting = new Set(
      this.#steersWhenAsked
        ? Object.keys(this.#parts.components).filter((name) => STEERING.test(name))
        : [],
    );
    const upload = () => this.#memory.load(device, kinds, { ...options, waiting }, onProgress);
    await compileKernels(device, this.#kernelsOf(target, options.prepared), options, upload);
  }

  /** The kernels of a request; none where it cannot be made, which whoever makes it is told. */
  #kernelsOf(target: Target, prepared: PlanRequest | undefined): KernelCode[] {
    if (!prepared) return [];
    try {
      const { promptTokens: tokens = SHORT_PROMPT, previews = 0 } = prepared;
      const request = plannedRequest(this.info, prepared);
      const { trace, variants } = this.#kindWithPrompts(target, request, { tokens, previews });
      return kernelCodes(trace(variants[0]).session.graphs, target);
    } catch {
      return [];
    }
  }

  async plan(
    size: PlanRequest,
    room: PlanRoom,
    options: MemoryOptions = {},
  ): Promise<MemoryReport> {
    return await this.#memory.report(this.#plannedKind(size, room), room, options);
  }

  async check(size: PlanRequest, room: PlanRoom, options: MemoryOptions = {}): Promise<void> {
    await this.#memory.check(this.#plannedKind(size, room), room, options);
  }

  [Symbol.dispose](): void {
    this.#memory[Symbol.dispose]();
    this.#parts[Symbol.dispose]();
  }

  async prepare(loras: readonly AppliedLora[]): Promise<void> {
    await this.#adapt(loras);
  }

  async #adapt(loras: readonly AppliedLora[] = []): Promise<void> {
    this.#critic?.plan(loras);
    await this.#memory.adapt(loras);
  }

  release(bytes: number): void {
    this.#memory.release(bytes);
  }

  async generate(request: PipelineRequest, control: PipelineControl = {}): Promise<PipelineResult> {
    this.#checkSettings(request);
    checkInputs(request, this.info);
    const startTime = performance.now();
    await this.#adapt(request.loras);
    const { found } = this.#operands;
    const attempt: Attempt = { frames: 0 };
    try {
      for (;;) {
        try {
          return await this.#generate(request, control, startTime, attempt);
        } catch (thrown) {
          const error = await agreed(thrown, this.#ranks, attempt, control);
          // What failed on the GPU may have left invalid buffers behind: the next request starts from new ones.
          const isCancelled = error instanceof DOMException && error.name === "AbortError";
          if (!isCancelled) this.#memory.drop();
          if (!this.#operands.widen(error, request, control.onNote)) throw error;
          await this.#adapt(request.loras);
        }
      }
    } finally {
      if (request.loras?.length && this.#operands.restore(found)) this.#memory.drop();
    }
  }

  async #generate(
    request: PipelineRequest,
    control: PipelineControl,
    startTime: number,
    attempt: Attempt,
  ): Promise<PipelineResult> {
    const { device } = this.#memory;
    const timings: Record<string, number> = { prepare: 0, encode: 0, denoise: 0, decode: 0 };
    let last = startTime;
    const lap = (phase: string) => {
      const now = performance.now();
      timings[phase]! += now - last;
      last = now;
    };
    control.onTokenizing?.(false);
    const prompts = this.#tokenize(request);
    control.onTokenizing?.(true);
    const kind = this.#kind(device.target, request, prompts, this.#commonShape(request, control));
    let frame = 0;
    const onFrame = control.onFrame && ((pixels: Float32Array) => {
      if (frame++ < attempt.frames) return;
      attempt.frames = frame;
      control.onFrame!(pixels);
    });
    const { session, runner, generate, finishing } = await this.#memory.sessionFor(kind, control);
    lap("prepare");
    return await runner.run(async (queue) => {
      const work = new Work({
        ...prompts,
        request,
        queue,
        lap,
        attempt,
        finishing,
        control: onFrame ? { ...control, onFrame } : control,
        encoded: this.#encoded,
        components: this.#parts.components,
        encodeSteps: session.encodeSteps,
        isFirst: isFirst(this.#ranks),
      });
      await generate(work);
      await work.finish();
      return { ...work.result(), timings, cutPrompts: prompts.cut };
    }, control);
  }

  trace(
    target: Target,
    request: PipelineRequest,
    control: PipelineControl = {},
    passes?: Variant["passes"],
  ): TracedRequest {
    const prompts = this.#tokenize(request);
    const common = this.#commonShape(request, control);
    const { variants, trace } = this.#kind(target, request, prompts, common);
    return trace(variants.find((variant) => variant.passes === passes) ?? variants[0]);
  }

  #tokenize(
    request: PipelineRequest,
  ): PromptTokens {
    const { tokenizer, pooledTokenizer: pooled } = this.#parts;
    const maxLength = request.maxSequenceLength ?? this.#usualLength;
    const prompts = this.#family.prompts(request, this.#parts);
    const cut: CutPrompt[] = [];
    const tell = (prompt: CutPrompt["prompt"], read: number) => (rest: readonly number[]) =>
      void cut.push(cutOf(tokenizer, prompt, read, rest.length, rest));
    const { negativePrompt } = request;
    if (prompts.length === 1 && negativePrompt !== this.info.defaults.negativePrompt) {
      const ids = tokenizer.encode(negativePrompt, { addSpecialTokens: false });
      if (ids.length > 0) tell("negative_prompt", 0)(ids);
    }
    const chunked = this.#family.chunkedPrompts?.(prompts, request, this.#parts, maxLength);
    if (chunked) return { ...chunked, cut: [...chunked.cut, ...cut] };
    const end = tokenizer.encode(this.#family.promptEnd ?? "", { addSpecialTokens: false });
    const read = maxLength - end.length;
    const most = read + this.#templateTokens(request);
    const tokens = prompts.map((prompt, i) => {
      const onCut = tell(i === 0 ? "prompt" : "negative_prompt", Math.max(0, read));
      return [...tokenizer.encode(prompt, { maxLength: most, onCut }), ...end];
    });
    const pooledTokens = pooled &&
      prompts.map((prompt) => pooled.tokenizer.encode(prompt, { maxLength: pooled.maxLength }));
    return { tokens, pooledTokens, maxLength, lengths: tokens.map(({ length }) => length), cut };
  }

  #templateTokens(request: PipelineRequest): number {
    return this.#family.templateTokens?.(request, this.#parts) ?? 0;
  }

  #checkSettings(request: PipelineRequest): void {
    checkSettings(request, this.info);
    this.#family.check?.(request, this.#parts, this.info);
  }

  #kind(
    target: Target,
    request: PipelineRequest,
    prompts: PromptSizes,
    common: CommonShape,
  ): RequestKind<TracedRequest> {
    const { width, height, numFrames, images = [] } = request;
    const { passes = ["sequential"], latents, smallestTile, shape: own } = this.#family.shapeOf(
      request,
      this.#parts,
      prompts,
      this.info,
    );
    const shape = { ...own, ...common };
    const finished = isFirst(this.#ranks) ? finishingShape(request) : undefined;
    const ways = prompts.lengths.length === 1
      ? ["single" as const]
      : this.#ranks.guidance
      ? ["sequential" as const]
      : passes;
    const { wideLayers } = this.#operands.found;
    const longest = Math.max(...latents.flatMap(({ height, width }) => [height, width]));
    const variants = tileSides(longest, smallestTile).flatMap((tileSide) =>
      ways.map((passes) => ({ tileSide, passes }))
    );
    const makesVideos = this.info.maxFrames > 1;
    const inputs = images.length > 0
      ? ` from ${images.length} image${images.length > 1 ? "s" : ""}`
      : "";
    return {
      key: JSON.stringify([shape, ways, finished]),
      variants: variants as [Variant, ...Variant[]],
      trace: (variant) => {
        const isExact = common.operands === "f32";
        const own = isExact ? { ...target, operands: "f32" as const } : target;
        const session = new Session(own, wideLayers, this.#ranks);
        const generate = this.#family.trace(session, this.#parts, { ...shape, ...variant });
        // A tile's share of the longest side is that of the autoencoder's tiles.
        const side = Math.ceil(variant.tileSide / longest * Math.max(width, height));
        const finishing = finished && new Finishing(session, this.#parts, finished, side);
        const runner = new SessionRunner(session, this.#parts.components);
        return { session, runner, generate, finishing };
      },
      subject: `make ${width}x${height}` +
        (makesVideos ? ` with ${numFrames} frame${numFrames === 1 ? "" : "s"}` : "") + inputs,
      advice: "ask for a smaller size" + (makesVideos ? " or fewer frames" : "") +
        (images.length > 1 ? " or bring fewer images" : ""),
    };
  }

  #kindWithPrompts(
    target: Target,
    request: PipelineRequest,
    { tokens = this.#usualLength, maxLength = this.#usualLength, previews = 0 } = {},
  ): RequestKind<TracedRequest> {
    const length = tokens + this.#templateTokens(request);
    const lengths = this.#family.prompts(request, this.#parts).map(() => length);
    const common = this.#commonShape(request, { previews });
    return this.#kind(target, request, { lengths, maxLength }, common);
  }

  #commonShape(request: PipelineRequest, { previews = 0 }: PipelineControl): CommonShape {
    return {
      hasPreviews: previews > 0 && isFirst(this.#ranks),
      isTinyDecoded: request.decoder === "tiny",
      isMasked: isInpainting(request),
      control: controlShape(request, this.info),
      operands: this.#operands.of(request),
    };
  }

  #plannedKind(size: PlanRequest, { target }: PlanRoom): RequestKind<TracedRequest> {
    const { prompt, promptTokens, previews = 0 } = size;
    const request = plannedRequest(this.info, size);
    this.#checkSettings(request);
    if (prompt !== undefined && promptTokens === undefined) {
      const common = this.#commonShape(request, { previews });
      return this.#kind(target, request, this.#tokenize(request), common);
    }
    const { maxSequenceLength: maxLength = this.#usualLength } = request;
    const tokens = promptTokens ?? maxLength;
    return this.#kindWithPrompts(target, request, { tokens, maxLength, previews });
  }
}

/** Embeddings of the folder, and whether they have vectors for all text encoders. */
function knownEmbeddings(
  { embeddings, textEncoder, textEncoder2 }: Parts,
): NonNullable<PipelineInfo["embeddings"]> {
  const encoders = [textEncoder, textEncoder2].filter((encoder) => encoder !== undefined);
  const widths = encoders.map(({ config }) => (config as { hidden_size: number }).hidden_size);
  return embeddings.known().map(({ name, vectors }) => ({
    name,
    vectors: vectors[0]!.count,
    width: vectors[0]!.width,
    isUsable: widths.every((width) => vectors.some((each) => each.width === width)),
  }));
}

export function adaptedParts<P extends Parts>(
  parts: P,
  lora: Family<P>["lora"],
): { readonly adapted: AdaptedComponent[]; readonly critic: AdaptedComponent | undefined } {
  type Names = Pick<AdaptableComponent, "family" | "layouts" | "readsWords">;
  const adapt = (part: Component | undefined, target: AdaptableComponent["target"], names: Names) =>
    part && new AdaptedComponent(part.weights, { target, ...names });
  const { transformer, transformer2, textEncoder, textEncoder2, textEncoder3 } = parts;
  const { family, layouts, isFirstAlone } = lora.transformer;
  const own = { family, layouts: typeof layouts === "function" ? layouts(parts) : layouts };
  const readsWords = lora.readsWords ?? false;
  const text = { family: lora.textEncoder, layouts: lora.textEncoderLayouts ?? [], readsWords };
  const text2 = {
    family: lora.textEncoder2 ?? lora.textEncoder,
    layouts: lora.textEncoder2Layouts ?? [],
  };
  const changed = Object.values(parts as Record<string, unknown>)
    .filter((part): part is Component & { change: Lora } =>
      typeof part === "object" && part !== null && "change" in part && part.change !== undefined
    );
  return {
    adapted: [
      adapt(transformer, "transformer", own),
      isFirstAlone ? undefined : adapt(transformer2, "transformer_2", own),
      adapt(textEncoder, "text_encoder", text),
      adapt(textEncoder2, "text_encoder_2", text2),
      adapt(textEncoder3, "text_encoder_3", { family: lora.textEncoder3 ?? "", layouts: [] }),
      ...changed.map(({ path, weights, change }) =>
        new AdaptedComponent(weights, { target: "transformer", ...own }, {
          ...{ key: path, lora: change, strength: 1, targets: ["transformer"], mode: "merge" },
        })
      ),
    ].filter((part) => part !== undefined),
    critic: adapt(parts.fakeScoreTransformer, "critic", own),
  };
}
