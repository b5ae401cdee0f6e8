/** `denoise pull`. */

import { BUNDLED_MODEL } from "../models/lora/bundled.ts";
import { isHubId, revisionSegments } from "../hub/cache.ts";
import { isAutomatic } from "../hub/cached_parts.ts";
import { type CataloguePart, PART_WORDS, partNamed } from "../hub/catalogue_parts.ts";
import { obtainPart } from "../hub/obtain_model.ts";
import { findNamed, type NamedModel, obtainNamed } from "../hub/obtain_named.ts";
import { didYouMean } from "../hub/near_names.ts";
import { partOf } from "../hub/parts.ts";
import { pullModel, type PullProgress } from "../hub/pull.ts";
import { parseHubFile } from "../hub/cache.ts";
import { asUsage, UsageError } from "./failure.ts";
import { flagOf } from "./flag_command.ts";
import { PART_FLAGS, type PullFlags } from "./flags.ts";
import { measureOrAssume } from "./model_options.ts";
import { duration, ProgressBar } from "./progress_bar.ts";
import { StopSignals } from "./stop_signals.ts";
import { gigabytes, print, tell } from "./print.ts";

interface Watched {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: PullProgress) => void;
  readonly onNote: (line: string) => void;
}

/** Fetches a model, `org/name`, `org/name:file` or a name of the catalogue, into the cache, as far as it is not there. */
export async function runPull(id: string, flags: PullFlags): Promise<number> {
  const bar = ProgressBar.ofLongWork();
  using stop = new StopSignals();
  const watched = {
    signal: stop.signal,
    onProgress: (progress: PullProgress) =>
      bar.show(progress.doneBytes / progress.totalBytes, id, describePull(progress)),
    onNote: (line: string) => {
      bar.clear();
      tell(line);
    },
  };
  try {
    const named = await findNamed(id);
    const part = named ? undefined : partNamed(id.trim());
    if (!named && !part) await pullRepository(id, flags, watched);
    else if (flags.include === undefined && flags.revision === undefined) {
      // Names say themselves which files they stand for.
      await (named ? pullNamed(id, named, watched) : pullPart(part!, watched));
    } else {
      throw new UsageError(
        `Cannot pull ${id} with --include or --revision: they are for hub ids, as org/name`,
      );
    }
    return 0;
  } finally {
    bar.clear();
  }
}

async function pullRepository(id: string, flags: PullFlags, watched: Watched): Promise<void> {
  const hubFile = parseHubFile(id);
  const repository = hubFile?.id ?? id;
  if (repository === BUNDLED_MODEL) {
    throw new UsageError(`Cannot pull ${id}: it comes with this program`);
  }
  if (!isHubId(repository)) {
    throw new UsageError(
      `Cannot pull ${id}: it is neither a name that "denoise list --all" shows nor a hub id, as org/name or org/name:file${
        didYouMean(id)
      }`,
    );
  }
  if (flags.revision !== undefined) asUsage(() => revisionSegments(repository, flags.revision!));
  const size = (files: number, bytes: number) =>
    `${files} ${files === 1 ? "file" : "files"}, ${gigabytes(bytes)}`;
  const { path, commit, files, bytes } = await pullModel(repository, {
    ...flags,
    ...(hubFile && { include: [partOf(hubFile.file)?.pattern ?? hubFile.file] }),
    ...watched,
    onChosen: ({ files, bytes, missingBytes }) =>
      tell(
        `Fetching ${id}: ${size(files, bytes)}, of which ${gigabytes(missingBytes)} are missing`,
      ),
  });
  watched.onNote(`${id} at ${commit.slice(0, 8)}: ${size(files, bytes)}`);
  print(path);
}

async function pullPart(
  { name, part, families, licence, source, bytes }: CataloguePart,
  watched: Watched,
): Promise<void> {
  const encoder = part === "ipAdapter" ? ", and its image encoder" : "";
  const path = await obtainPart(name, part, watched, () => {
    const models = families.join(", ") || "all models";
    tell(`${name}, ${PART_WORDS[part]} for ${models}, licence ${licence}`);
    tell(`Fetching ${source}, about ${gigabytes(bytes)}${encoder}`);
  });
  const use = isAutomatic(part)
    ? "models that it fits use it from their next start on"
    : `use it with ${
      flagOf(part, PART_FLAGS[part])
    } ${name}; a server opens models of its cache with it`;
  watched.onNote(`${name} is here; ${use}`);
  print(path);
}

async function pullNamed(name: string, named: NamedModel, watched: Watched): Promise<void> {
  if ("own" in named) {
    const { model } = named.own;
    if (isHubId(model)) return await pullRepository(model, {}, watched);
    throw new UsageError(`Cannot pull ${name}: it stands for ${model}, which is no hub id`);
  }
  const measure = (wantedBytes: number) => measureOrAssume(wantedBytes, watched.onNote);
  const { path, parts, precision } = await obtainNamed(named, { ...watched, measure });
  const own = named.entry.name;
  watched.onNote(`${own} is here in ${precision.toUpperCase()}; use it with --model-path ${own}`);
  for (const place of [...Object.values(parts), path]) print(place);
}

/** The words behind the bar of a download, such as `1.2/12.3 GB, 24.0 MB/s, 7 min 42 s left`. */
function describePull(
  { doneBytes, totalBytes, bytesPerSecond, secondsLeft }: PullProgress,
): string {
  const [unit, name] = totalBytes >= 1e9 ? [1e9, "GB"] as const : [1e6, "MB"] as const;
  const done = `${(doneBytes / unit).toFixed(1)}/${(totalBytes / unit).toFixed(1)} ${name}`;
  if (secondsLeft === undefined) return done;
  return `${done}, ${(bytesPerSecond / 1e6).toFixed(1)} MB/s, ${duration(secondsLeft)} left`;
}
