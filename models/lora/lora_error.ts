/** A LoRA that cannot be used: damaged, for another model, or with no key that fits. */
export class LoraError extends Error {
  /** Tells it from other errors on the other side of a thread. */
  override readonly name = "LoraError";
  /** All that is wrong, one line each: tensors that cannot be used, keys that fit nothing. */
  readonly problems: readonly string[];

  /**
   * An error with all that is wrong.
   *
   * @param message one sentence that names the file
   * @param problems all that is wrong, one line each
   */
  constructor(message: string, problems: readonly string[] = [], options: ErrorOptions = {}) {
    super(message, options);
    this.problems = problems;
  }
}
