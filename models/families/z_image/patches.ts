/** Between latents and tokens: a token holds the latents of its patch in the order (row, column, channel). */
import { permute, type Tensor } from "../../../runtime/mod.ts";
import { PATCH_SIDE } from "./config.ts";
import type { TokenGrid } from "../../pipeline/token_grid.ts";

/** Latents [1, channels, height, width] as tokens [1, tokens, features]. */
export function patchify(latents: Tensor): Tensor {
  const [batch, channels, height, width] = latents.shape as [number, number, number, number];
  const [rows, columns] = [height / PATCH_SIDE, width / PATCH_SIDE];
  return permute(
    latents.reshape(batch, channels, rows, PATCH_SIDE, columns, PATCH_SIDE),
    [0, 2, 4, 3, 5, 1],
  ).reshape(batch, rows * columns, PATCH_SIDE * PATCH_SIDE * channels);
}

/** Tokens [1, tokens, features] as latents [1, channels, height, width]. */
export function unpatchify(tokens: Tensor, { rows, columns }: TokenGrid): Tensor {
  return permute(
    tokens.reshape(1, rows, columns, PATCH_SIDE, PATCH_SIDE, -1),
    [0, 5, 1, 3, 2, 4],
  ).reshape(1, -1, rows * PATCH_SIDE, columns * PATCH_SIDE);
}

/** Tokens [1, tokens, features] as latents, channels last: [height, width, channels]. */
export function unpatchifyLast(tokens: Tensor, { rows, columns }: TokenGrid): Tensor {
  return permute(
    tokens.reshape(rows, columns, PATCH_SIDE, PATCH_SIDE, -1),
    [0, 2, 1, 3, 4],
  ).reshape(rows * PATCH_SIDE, columns * PATCH_SIDE, -1);
}
