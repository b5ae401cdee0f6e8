import { type Activation, activationReference } from "../activations.ts";
import { elementCount } from "../../shape.ts";
import { lazyArray, type NdArray } from "../ndarray.ts";

/** Sizes and operands of a reference convolution. */
interface ConvReferenceOptions {
  bias?: NdArray | undefined;
  cache?: NdArray | undefined;
  residual?: NdArray | undefined;
  stride?: readonly [number, number, number];
  padding?: readonly [number, number, number, number];
  frontPadding?: number | undefined;
  upsample?: number;
  activation?: Activation;
}

/**
 * Causal convolution of x [B, T, H, W, Ci] with w [Co, kt, kh, kw, Ci] in double precision, computed when its values are
 * asked for.
 */
export function convReference(
  x: NdArray,
  w: NdArray,
  options: ConvReferenceOptions = {},
): NdArray {
  const { bias, cache, residual, upsample = 1, activation = "none" } = options;
  const { stride: [st, sh, sw] = [1, 1, 1], padding = [0, 0, 0, 0] } = options;
  const [batch, frames, height, width, inChannels] = x.shape as Five;
  const [channels, kt, kh, kw] = w.shape as Five;
  const cached = cache?.shape[1] ?? 0;
  const front = options.frontPadding ?? kt - 1 - cached;
  const [top, bottom, left, right] = padding;
  const outFrames = Math.floor((front + cached + frames - kt) / st) + 1;
  const outHeight = Math.floor((height * upsample + top + bottom - kh) / sh) + 1;
  const outWidth = Math.floor((width * upsample + left + right - kw) / sw) + 1;
  const shape = [batch, outFrames, outHeight, outWidth, channels];

  /** Where the input channels of a pixel begin, and in which array; nothing where the input is padded. */
  const pixel = (b: number, t: number, h: number, v: number) => {
    const isInside = t >= 0 && h >= 0 && h < height * upsample && v >= 0 && v < width * upsample;
    if (!isInside) return undefined;
    const source = t < cached ? cache! : x;
    const frame = t < cached ? b * cached + t : b * frames + t - cached;
    const row = frame * height + Math.floor(h / upsample);
    return { source, at: (row * width + Math.floor(v / upsample)) * inChannels };
  };
  const output = (b: number, t: number, i: number, j: number, n: number) => {
    let sum = bias?.data[n] ?? 0;
    for (let dt = 0; dt < kt; dt++) {
      for (let dh = 0; dh < kh; dh++) {
        for (let dw = 0; dw < kw; dw++) {
          const place = pixel(b, t * st + dt - front, i * sh + dh - top, j * sw + dw - left);
          if (!place) continue;
          const row = (((n * kt + dt) * kh + dh) * kw + dw) * inChannels;
          for (let c = 0; c < inChannels; c++) {
            sum += place.source.data[place.at + c]! * w.data[row + c]!;
          }
        }
      }
    }
    return activationReference(activation, sum);
  };
  return lazyArray(shape, () => {
    const data = new Float64Array(elementCount(shape));
    let at = 0;
    for (let b = 0; b < batch; b++) {
      for (let t = 0; t < outFrames; t++) {
        for (let i = 0; i < outHeight; i++) {
          for (let j = 0; j < outWidth; j++) {
            for (let n = 0; n < channels; n++, at++) {
              data[at] = output(b, t, i, j, n) + (residual?.data[at] ?? 0);
            }
          }
        }
      }
    }
    return data;
  });
}

type Five = readonly [number, number, number, number, number];
