/** Runs a section as a process of its own: where a kernel or a driver ends it, nothing else ends. */

import { lastOf } from "../media/isolated/program.ts";
import { GRACE_SECONDS, type SectionLine, SectionListener } from "./run_section.ts";
import type { SectionOrder } from "./sections/section.ts";
import type { SectionResult } from "./types.ts";

/** The command by which the program runs one section of a report; it is for `denoise report` and for nobody else. */
export const SECTION_COMMAND = "report-section";
/** Begins every line that such a process writes, because drivers print too. */
export const LINE_MARK = "denoise-report ";

/** Characters of what a process that broke down printed last. */
const LAST_WORDS = 400;

type OnBegin = (what: string) => void;

export async function runSectionProcess(
  order: SectionOrder,
  command: readonly string[],
  onBegin: OnBegin,
  graceSeconds = GRACE_SECONDS,
): Promise<SectionResult> {
  const [program, ...args] = command;
  const child = new Deno.Command(program!, {
    args,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let isLate = false;
  const limit = setTimeout(() => {
    isLate = true;
    child.kill("SIGKILL");
  }, (order.seconds + graceSeconds) * 1000);
  const section = new SectionListener(order, onBegin);
  const hear = (text: string) => {
    if (text.startsWith(LINE_MARK)) {
      section.hear(JSON.parse(text.slice(LINE_MARK.length)) as SectionLine);
    }
  };
  const [lastWords, status] = await Promise.all([
    lastOf(child.stderr, 4 * LAST_WORDS).then(oneLine),
    child.status,
    readLines(child.stdout, hear),
    give(child.stdin, JSON.stringify(order)),
  ]);
  clearTimeout(limit);
  return section.result(isLate, describeEnd(status, lastWords));
}

function describeEnd({ code, signal }: Deno.CommandStatus, lastWords: string): string {
  const how = signal ? `its process was ended by ${signal}` : `its process ended with ${code}`;
  return lastWords ? `${how} (${lastWords})` : how;
}

async function give(stdin: WritableStream<Uint8Array>, text: string): Promise<void> {
  try {
    await new Blob([text]).stream().pipeTo(stdin);
  } catch {
    // It ended before it had read; why, its status says.
  }
}

async function readLines(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  hear: (line: string) => void,
): Promise<void> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) hear(line);
  }
}

function oneLine(text: string): string {
  const words = text.replace(/\s+/g, " ").trim();
  return words.length > LAST_WORDS ? `…${words.slice(-LAST_WORDS)}` : words;
}
