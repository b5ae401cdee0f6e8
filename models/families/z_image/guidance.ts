/** Guidance: away from what the negative prompt gives, and no further than it may be. */
import { elementwise, linear, slice, type Tensor } from "../../../runtime/mod.ts";

/**
 * pred = p + g · (p − n), shortened to `limit` · ‖p‖ where it is longer.
 *
 * Source: diffusers `ZImagePipeline`, `cfg_normalization`.
 *
 * @param positive p, [1, tokens, features]
 * @param negative n, likewise
 * @param guidance f32 [1, 1, 2]: g and the limit
 */
export function limitedGuidance(positive: Tensor, negative: Tensor, guidance: Tensor): Tensor {
  const scale = slice(guidance, 2, 0, 1);
  const predicted = elementwise("p + g * (p - n)", { p: positive, n: negative, g: scale });
  const factor = elementwise("min(1.0, limit * sqrt(p / max(q, 1e-30)))", {
    limit: slice(guidance, 2, 1, 2),
    p: sumOfSquares(positive),
    q: sumOfSquares(predicted),
  });
  return elementwise("x * factor", { x: predicted, factor }, { name: "guided" });
}

/** Of all elements, [1, 1, 1]; by rows first, so that no sum is long. */
function sumOfSquares(x: Tensor): Tensor {
  const squares = elementwise("x * x", { x });
  return sumOfRows(sumOfRows(squares).reshape(1, 1, x.dim(1)));
}

/** [..., n] summed to [..., 1]. */
function sumOfRows(x: Tensor): Tensor {
  const count = x.dim(-1);
  const ones = x.graph.constant(
    `ones ${count}`,
    [1, count],
    "f32",
    new Float32Array(count).fill(1),
  );
  return linear(x, ones, { name: "sum" });
}
