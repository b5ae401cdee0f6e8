/** A model on this machine, by whatever it is called. */

import { folderOf } from "../generation/open_model.ts";
import { findNamed } from "../hub/obtain_named.ts";
import { type FoundModel, resolveModel } from "../hub/resolve.ts";

/** Finds a model by a path, a hub id or a name; nothing is fetched. */
export async function localModel(input: string): Promise<FoundModel> {
  const named = await findNamed(input);
  if (!named) return await resolveModel(folderOf(input));
  return await resolveModel("own" in named ? named.own.model : named.entry.repository);
}
