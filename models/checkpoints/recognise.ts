/** Which components a file holds, known by the names of its tensors. */
import type { TensorSource } from "../../runtime/mod.ts";
import type {
  ComponentFormat,
  ComponentNaming,
  FamilyFiles,
  FormatFile,
} from "./component_format.ts";
import { viewLayout } from "./layout_view.ts";

export interface RecognisedComponent {
  readonly format: ComponentFormat;
  readonly tensors: TensorSource;
}

/** All components in a file, each once; the prefix of names is what stands before a probe. */
export function recognise(
  source: FormatFile,
  formats: readonly ComponentFormat[],
): RecognisedComponent[] {
  const found: RecognisedComponent[] = [];
  for (const format of formats) {
    if (found.some((other) => other.format.component === format.component)) continue;
    const tensors = viewAs(source, format);
    if (tensors) found.push({ format, tensors });
  }
  return found;
}

/** The formats to look for: of a file with a transformer those of its family, whose models name an encoder as others do not. */
export function formatsFor(
  source: FormatFile,
  families: readonly FamilyFiles[],
  optional: readonly ComponentFormat[],
): ComponentFormat[] {
  const all = families.flatMap(({ formats }) => formats);
  const [transformer] = recognise(
    source,
    all.filter(({ component }) => component === "transformer"),
  );
  const own = families.find(({ formats }) => transformer && formats.includes(transformer.format));
  return [...own?.formats ?? all, ...optional];
}

function viewAs(source: FormatFile, format: ComponentFormat): TensorSource | undefined {
  for (const naming of format.namings) {
    const { layout, view } = naming;
    // A file may hold several text encoders of one kind.
    for (const prefix of prefixesOf(source, naming)) {
      const tensors = view?.(viewLayout(source, undefined, prefix)) ?? viewLayout(
        source,
        typeof layout === "function" ? layout(viewLayout(source, undefined, prefix)) : layout,
        prefix,
      );
      if (format.fits?.(tensors, source) ?? true) return tensors;
    }
  }
  return undefined;
}

function prefixesOf(source: TensorSource, { probes }: ComponentNaming): string[] {
  const [first, ...others] = probes;
  const prefixes: string[] = [];
  for (const name of source.names) {
    if (!name.endsWith(first!)) continue;
    const prefix = name.slice(0, name.length - first!.length);
    const isWhole = prefix === "" || prefix.endsWith(".");
    if (isWhole && others.every((probe) => source.find(prefix + probe))) prefixes.push(prefix);
  }
  return prefixes.sort((a, b) => a.length - b.length);
}

export function isLora(names: Iterable<string>): boolean {
  let [changes, all] = [0, 0];
  for (const name of names) {
    all++;
    if (/(?:^|[._])(?:lora|hada|lokr)[._]|\.dora_scale$|\.diff(?:_b)?$/i.test(name)) changes++;
  }
  return changes > all / 4;
}
