/** One section of a GPU report in a worker, which is ended when its time is up. */
import { runOrder, type SectionLine } from "../report/run_section.ts";
import type { SectionOrder } from "../report/sections/section.ts";

const scope = self as unknown as {
  onmessage: (event: MessageEvent<SectionOrder>) => void;
  postMessage(line: SectionLine): void;
};

scope.onmessage = ({ data }) => void runOrder(data, (line) => scope.postMessage(line));
