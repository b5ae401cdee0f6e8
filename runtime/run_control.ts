/** What the caller of work may ask of it while it is under way. */
export interface RunControl {
  /** Asked before every submit and every kernel to compile; `true` makes the work throw an `AbortError`. */
  isCancelled?(): boolean;
  /** Told how many of the kernels that were missing are compiled. */
  onKernels?(done: number, total: number): void;
}

/** Throws the error by which cancelled work ends. */
export function throwIfCancelled(control: RunControl): void {
  if (control.isCancelled?.()) throw cancelledError();
}

export function cancelledError(): DOMException {
  return new DOMException("Cannot finish: the work was cancelled", "AbortError");
}
