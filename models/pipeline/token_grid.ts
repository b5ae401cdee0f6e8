/** How the tokens of an image lie. */
export interface TokenGrid {
  readonly rows: number;
  readonly columns: number;
}

/** Tokens of an image. */
export function tokenCount({ rows, columns }: TokenGrid): number {
  return rows * columns;
}
