/** What weights of tokens do to the states of a text encoder, by the program whose prompts have them. */
import { elementwise, type Tensor } from "../../runtime/mod.ts";
import { sumOfRows } from "../blocks/sums.ts";

/**
 * Multiplies every state by its weight, and then all states of a text so that their mean is as before. As AUTOMATIC1111's
 * web UI does.
 *
 * @param states [texts, places, width]
 * @param weights [texts, places, 1]
 */
export function weightedByMean(states: Tensor, weights: Tensor): Tensor {
  const product = elementwise("x * w", { x: states, w: weights }, { name: "weighted" });
  const sum = (x: Tensor) => sumOfRows(sumOfRows(x).reshape(x.dim(0), 1, x.dim(1)));
  return elementwise("p * (before / after)", {
    p: product,
    before: sum(states),
    after: sum(product),
  }, { name: "weighted" });
}

/**
 * Moves every state away from that of an empty prompt at its place, or towards it: e + (x − e) · w. As ComfyUI does.
 *
 * @param states [texts, places, width]
 * @param weights [texts, places, 1]
 * @param empty [1, places, width]
 */
export function weightedFromEmpty(states: Tensor, weights: Tensor, empty: Tensor): Tensor {
  // Written so that a weight of 1 changes no bit.
  return elementwise("x + (x - e) * (w - 1.0)", { x: states, w: weights, e: empty }, {
    name: "weighted",
  });
}
