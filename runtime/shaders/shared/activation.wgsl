// act_NAME(x): the activation function NAME of one element or four; act_none(x) is x. ACT stands for
// act where a kernel has two of them.
// Arguments of tanh and exp are clamped: some drivers give NaN for large ones.

//#param ACTIVATION: none | silu | gelu | gelu_tanh | quick_gelu | tanh | relu | leaky_relu = none
//#param T: wgsl // f32 or vec4<f32>
//#param ACT: word = act

//#if ACTIVATION == none
fn ACT_none(x: T) -> T { return x; }
//#elif ACTIVATION == silu
fn ACT_silu(x: T) -> T { return x / (1.0 + exp(clamp(-x, T(-80.0), T(80.0)))); }
//#elif ACTIVATION == quick_gelu
fn ACT_quick_gelu(x: T) -> T { return x / (1.0 + exp(clamp(-1.702 * x, T(-80.0), T(80.0)))); }
//#elif ACTIVATION == tanh
fn ACT_tanh(x: T) -> T { return tanh(clamp(x, T(-15.0), T(15.0))); }
//#elif ACTIVATION == relu
fn ACT_relu(x: T) -> T { return max(x, T(0.0)); }
//#elif ACTIVATION == leaky_relu
fn ACT_leaky_relu(x: T) -> T { return max(x, 0.2 * x); }
//#elif ACTIVATION == gelu_tanh
fn ACT_gelu_tanh(x: T) -> T {
  let inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + tanh(clamp(inner, T(-15.0), T(15.0))));
}
//#else
// erf by Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
fn ACT_gelu(x: T) -> T {
  let z = abs(x) * 0.7071067811865476;
  let t = 1.0 / (1.0 + 0.3275911 * z);
  let poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  let e = 1.0 - poly * exp(-min(z * z, T(80.0)));
  return 0.5 * x * (1.0 + sign(x) * e);
}
//#endif
