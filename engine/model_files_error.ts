/** A model that was opened before cannot be opened again: its files are gone, or others. */
export class ModelFilesError extends Error {
  override readonly name = "ModelFilesError";
}
