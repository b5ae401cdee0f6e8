/** Frames are put between decoded ones, and all are enlarged, one by one and in tiles, so that memory does not grow. */
import { writing } from "../../runtime/mod.ts";
import { TiledCoder } from "../autoencoders/tiled_coder.ts";
import type { FrameInterpolatorConfig } from "../frame_interpolators/ifnet.ts";
import { TiledInterpolator } from "../frame_interpolators/tiled_interpolator.ts";
import type { Session } from "../memory/session.ts";
import type { StageQueue } from "../memory/session_runner.ts";
import { inputUnit, upscale, type UpscalerConfig } from "../upscalers/upscaler.ts";
import type { Component, Parts } from "./components.ts";
import { isFinite } from "./non_finite.ts";
import type { PipelineRequest } from "./types.ts";

/** Longest side of a tile that is enlarged at once: what bounds the memory. */
const TILE_SIDES = { SRVGGNetCompact: 256, RRDBNet: 128 } as const;

export interface FinishingShape {
  /** Pixels per row of decoded frames. */
  readonly width: number;
  readonly height: number;
  readonly isUpscaled: boolean;
  /** How often the number of frames is doubled, and the scale at which motion is looked for; nothing where it is not. */
  readonly interpolation?: { readonly exponent: number; readonly scale: number } | undefined;
}

export function finishingShape(
  { width, height, numFrames, enableUpscaling: isUpscaled = false, ...request }: PipelineRequest,
): FinishingShape | undefined {
  const interpolation = request.enableFrameInterpolation && numFrames > 1
    ? {
      exponent: request.frameInterpolationExp ?? 1,
      scale: request.frameInterpolationScale ?? 1,
    }
    : undefined;
  return isUpscaled || interpolation ? { width, height, isUpscaled, interpolation } : undefined;
}

/** A frame on its way, RGB in [0, 1]. */
type Frame = Float32Array;

interface Step {
  begin?(): void;
  run(queue: Pick<StageQueue, "run">, frame: Frame, done: (frame: Frame) => void): Promise<void>;
}

export class Finishing {
  readonly #steps: Step[] = [];
  readonly #waiting: { readonly frame: Frame; readonly step: number }[] = [];

  /** Frames are put between others in tiles whose sides are `tileSide` pixels or so at most. */
  constructor(
    session: Session,
    parts: Pick<Parts, "upscaler" | "frameInterpolator">,
    shape: FinishingShape,
    tileSide = Infinity,
  ) {
    session.stages.at(-1)?.keepTensors();
    if (shape.interpolation) {
      this.#steps.push(
        ...traceInterpolation(session, parts.frameInterpolator!, shape, tileSide),
      );
    }
    if (shape.isUpscaled) this.#steps.push(traceUpscaling(session, parts.upscaler!, shape));
  }

  begin(): void {
    this.#waiting.length = 0;
    for (const step of this.#steps) step.begin?.();
  }

  take(frame: Frame): void {
    this.#waiting.push({ frame, step: 0 });
  }

  get hasWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  async run(queue: Pick<StageQueue, "run">, finished: (frame: Frame) => void): Promise<void> {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      const step = next.step + 1;
      await this.#steps[next.step]!.run(queue, next.frame, (frame) => {
        if (step === this.#steps.length) finished(frame);
        else this.#waiting.push({ frame, step });
      });
    }
  }
}

/** Steps that put one frame between each two: as many as there are doublings. */
function traceInterpolation(
  session: Session,
  { config, weights }: Component<FrameInterpolatorConfig>,
  { width, height, interpolation }: FinishingShape,
  tileSide: number,
): Step[] {
  const { exponent, scale } = interpolation!;
  const stage = session.stage("decode", { name: "interpolate", repeats: 2 });
  const size = { height, width, scale, tileSide };
  const interpolator = new TiledInterpolator(stage, config, weights.root, size);
  return Array.from({ length: exponent }, (): Step => {
    let last: Frame | undefined;
    return {
      begin() {
        last = undefined;
      },
      async run(queue, frame, done) {
        const before = last;
        last = frame;
        if (!before) return done(frame);
        await interpolator.run(queue, [before, frame], (middle) => {
          done(toPixels(middle, "frame interpolator"));
          done(frame);
        });
      },
    };
  });
}

function traceUpscaling(
  session: Session,
  { config, weights }: Component<UpscalerConfig>,
  { width, height }: FinishingShape,
): Step {
  // Tiles have whole pixels of what the network works on.
  const unit = inputUnit(config);
  const coder = new TiledCoder(session.stage("decode", { name: "upscale" }), {
    name: "upscale",
    height: height / unit,
    width: width / unit,
    channels: 3,
    tileSide: TILE_SIDES[config._class_name] / unit,
    inputScale: unit,
    resultScale: unit * config.scale,
    trace: (graph, part) => upscale(graph, config, weights.root, part),
  });
  return {
    run: (queue, frame, done) =>
      coder.run(queue, {
        first: [writing(coder.input, frame)],
        received: (_, pixels) => {
          if (pixels) done(toPixels(pixels, "upscaler"));
        },
      }),
  };
}

function toPixels(values: Float32Array, network: string): Frame {
  if (isFinite(values)) return values.map((value) => Math.min(1, Math.max(0, value)));
  throw new Error(
    `Cannot finish: the ${network} gave NaN or Inf; fetch its file again, or make the result without it`,
  );
}
