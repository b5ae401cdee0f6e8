/** Activation functions: `shaders/shared/activation.wgsl` computes them, this file has them in double precision. */

/** An activation that kernels apply in their last step. */
export type Activation =
  | "none"
  | "silu"
  | "gelu"
  | "gelu_tanh"
  | "quick_gelu"
  | "tanh"
  | "relu"
  | "leaky_relu";

/** Every activation but `none`: `elementwise` calls them `act_silu(x)` and so on. */
export const ACTIVATIONS = [
  "silu",
  "gelu",
  "gelu_tanh",
  "quick_gelu",
  "tanh",
  "relu",
  "leaky_relu",
] as const;

/** The error function in double precision (series, and continued fraction for large arguments). */
function erf(x: number): number {
  const z = Math.abs(x);
  if (z < 2.5) {
    let term = z;
    let sum = z;
    for (let n = 1; n < 80; n++) {
      term *= -z * z / n;
      sum += term / (2 * n + 1);
    }
    return Math.sign(x) * sum * 2 / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let k = 60; k >= 1; k--) fraction = k / 2 / (z + fraction);
  return Math.sign(x) * (1 - Math.exp(-z * z) / (Math.sqrt(Math.PI) * (z + fraction)));
}

export function activationReference(activation: Activation, x: number): number {
  switch (activation) {
    case "none":
      return x;
    case "silu":
      return x / (1 + Math.exp(-x));
    case "quick_gelu":
      return x / (1 + Math.exp(-1.702 * x));
    case "tanh":
      return Math.tanh(x);
    case "relu":
      return Math.max(x, 0);
    case "leaky_relu":
      return Math.max(x, 0.2 * x);
    case "gelu_tanh":
      return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
    case "gelu":
      return 0.5 * x * (1 + erf(x / Math.SQRT2));
  }
}
