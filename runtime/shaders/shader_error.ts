/** What is wrong with a kernel file, or with how it is used. */
export class ShaderError extends Error {
  override readonly name = "ShaderError";

  /** @param line counted from 1 */
  constructor(path: string, line: number, reason: string, options?: ErrorOptions) {
    super(`Cannot expand ${path}:${line}: ${reason}`, options);
  }
}
