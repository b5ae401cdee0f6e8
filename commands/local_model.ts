/** A model on this machine, by whatever it is called. */

import { folderOf } from "../generation/open_model.ts";
import { findNamed } from "../hub/obtain_named.ts";
import { type FoundModel, resolveModel } from "../hub/resolve.ts";

/**
 * Finds a model; nothing is fetched.
 *
 * @param input a path, a hub id, a name of the catalogue or of a user's own, or `bundled`
 * @throws {Error} when this machine does not have it, saying what to do
 */
export async function localModel(input: string): Promise<FoundModel> {
  const named = await findNamed(input);
  if (!named) return await resolveModel(folderOf(input));
  return await resolveModel("own" in named ? named.own.model : named.entry.repository);
}
