/** Activation functions, as WGSL for scalars and `vec4`, and in double precision for references. */

/** Names of the activations that kernels take in their epilogues. */
export type Activation = "none" | "relu" | "silu" | "gelu" | "gelu_tanh" | "quick_gelu" | "tanh";

/**
 * WGSL of `fn act_NAME(x: T) -> T` for one activation and `T` = `f32` or `vec4<f32>`. Arguments of `tanh` and
 * `exp` are clamped: some drivers give NaN for large ones.
 */
export function activationWgsl(activation: Activation, type: "f32" | "vec4<f32>"): string {
  const splat = (value: string) => (type === "f32" ? `f32(${value})` : `vec4<f32>(${value})`);
  const head = `fn act_${activation}(x: ${type}) -> ${type}`;
  switch (activation) {
    case "none":
      return `${head} { return x; }`;
    case "relu":
      return `${head} { return max(x, ${splat("0.0")}); }`;
    case "silu":
      return `${head} { return x / (1.0 + exp(clamp(-x, ${splat("-80.0")}, ${splat("80.0")}))); }`;
    case "quick_gelu":
      return `${head} { return x / (1.0 + exp(clamp(-1.702 * x, ${splat("-80.0")}, ${
        splat("80.0")
      }))); }`;
    case "tanh":
      return `${head} { return tanh(clamp(x, ${splat("-15.0")}, ${splat("15.0")})); }`;
    case "gelu_tanh":
      return `${head} {
  let inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + tanh(clamp(inner, ${splat("-15.0")}, ${splat("15.0")})));
}`;
    case "gelu":
      // erf by Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
      return `${head} {
  let z = abs(x) * 0.7071067811865476;
  let t = 1.0 / (1.0 + 0.3275911 * z);
  let poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  let e = 1.0 - poly * exp(-min(z * z, ${splat("80.0")}));
  return 0.5 * x * (1.0 + sign(x) * e);
}`;
  }
}

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

/** The activation in double precision. */
export function activationReference(activation: Activation, x: number): number {
  switch (activation) {
    case "none":
      return x;
    case "relu":
      return Math.max(x, 0);
    case "silu":
      return x / (1 + Math.exp(-x));
    case "quick_gelu":
      return x / (1 + Math.exp(-1.702 * x));
    case "tanh":
      return Math.tanh(x);
    case "gelu_tanh":
      return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
    case "gelu":
      return 0.5 * x * (1 + erf(x / Math.SQRT2));
  }
}
