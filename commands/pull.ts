/** `denoise pull`. */

import { BUNDLED_MODEL } from "../generation/open_model.ts";
import { measureDevice } from "../engine/mod.ts";
import { isHubId, revisionSegments } from "../hub/cache.ts";
import { type CatalogueControlNet, controlNetNamed } from "../hub/catalogue.ts";
import { obtainPart } from "../hub/obtain_model.ts";
import { findNamed, type NamedModel, obtainNamed } from "../hub/obtain_named.ts";
import { partOf } from "../hub/parts.ts";
import { type ChosenFiles, pullModel, type PullProgress } from "../hub/pull.ts";
import { parseHubFile } from "../hub/resolve.ts";
import { asUsage, UsageError } from "./failure.ts";
import type { PullFlags } from "./flags.ts";
import { duration, ProgressBar } from "./progress_bar.ts";
import { StopSignals } from "./stop_signals.ts";
import { print, tell } from "./print.ts";

/** What a card is taken to have where there is none to ask. */
const USUAL_BYTES = 8e9;

/** Fetches a model, `org/name`, `org/name:file` or a name of the catalogue, into the cache, as far as it is not there. */
export async function runPull(id: string, flags: PullFlags): Promise<number> {
  const bar = ProgressBar.ofDownload();
  const stop = new AbortController();
  using _signals = new StopSignals(() => stop.abort(new DOMException("Cancelled", "AbortError")));
  const watched = {
    signal: stop.signal,
    onProgress: (progress: PullProgress) =>
      bar.show(progress.doneBytes / progress.totalBytes, id, describePull(progress)),
  };
  try {
    const named = await findNamed(id);
    if (named) return await pullNamed(id, named, flags, watched, bar);
    const control = controlNetNamed(id.trim());
    if (control) return await pullControlNet(control, flags, watched, bar);
    const hubFile = parseHubFile(id);
    const repository = hubFile?.id ?? id;
    if (repository === BUNDLED_MODEL) {
      throw new UsageError(`Cannot pull ${id}: it comes with this program`);
    }
    if (!isHubId(repository)) {
      throw new UsageError(
        `Cannot pull ${id}: it is neither a name that "denoise list --all" shows nor a hub id, as org/name or org/name:file`,
      );
    }
    const chosen = hubFile
      ? { ...flags, include: [partOf(hubFile.file)?.pattern ?? hubFile.file] }
      : flags;
    if (flags.revision !== undefined) asUsage(() => revisionSegments(repository, flags.revision!));
    const onChosen = ({ files, bytes, missingBytes }: ChosenFiles) =>
      tell(
        `Fetching ${id}: ${describeFiles(files, bytes)}, of which ${
          gigabytes(missingBytes)
        } are missing`,
      );
    const options = { ...chosen, ...watched, onChosen };
    const { path, commit, files, bytes } = await pullModel(repository, options);
    bar.clear();
    tell(
      `${id} at ${commit.slice(0, 8)}: ${describeFiles(files, bytes)}`,
    );
    print(path);
    return 0;
  } finally {
    bar.clear();
  }
}

function describeFiles(files: number, bytes: number): string {
  return `${files} ${files === 1 ? "file" : "files"}, ${gigabytes(bytes)}`;
}

/** How a download is watched and stopped. */
interface Watched {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: PullProgress) => void;
}

/** Names say themselves which files they stand for. */
function refuseChoice(name: string, { include, revision }: PullFlags): void {
  if (include === undefined && revision === undefined) return;
  throw new UsageError(
    `Cannot pull ${name} with --include or --revision: they are for hub ids, as org/name`,
  );
}

async function pullControlNet(
  { name, family, licence, source, parameters }: CatalogueControlNet,
  flags: PullFlags,
  watched: Watched,
  bar: ProgressBar,
): Promise<number> {
  refuseChoice(name, flags);
  const path = await obtainPart(name, "controlnet", watched, () => {
    tell(`${name}, a ControlNet for ${family}, licence ${licence}`);
    tell(`Fetching ${source}, about ${gigabytes(2 * parameters)}`);
  });
  bar.clear();
  tell(`${name} is here; use it with --controlnet ${name}`);
  print(path);
  return 0;
}

async function pullNamed(
  name: string,
  named: NamedModel,
  flags: PullFlags,
  watched: Watched,
  bar: ProgressBar,
): Promise<number> {
  refuseChoice(name, flags);
  if ("own" in named) {
    const { model } = named.own;
    if (isHubId(model)) return await runPull(model, flags);
    throw new UsageError(`Cannot pull ${name}: it stands for ${model}, which is no hub id`);
  }
  const say = (line: string) => {
    bar.clear();
    tell(line);
  };
  const measure = async (wantedBytes: number) => {
    try {
      return await measureDevice({}, wantedBytes);
    } catch (error) {
      say(`No GPU could be asked for its memory (${(error as Error).message}); 8 GB are assumed`);
      return USUAL_BYTES;
    }
  };
  const { path, parts, precision } = await obtainNamed(named, { ...watched, measure, onNote: say });
  say(
    `${named.entry.name} is here in ${precision.toUpperCase()}; use it with --model-path ${named.entry.name}`,
  );
  for (const place of [...Object.values(parts), path]) print(place);
  return 0;
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

/** A size for people, such as `12.3 GB` or `0.4 MB`. */
export function gigabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
